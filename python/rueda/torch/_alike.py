"""Whether the ranks begin with the same parameters; part of the first step's communication."""

from __future__ import annotations

from typing import Sequence

import torch

from ._tensors import native, on_host
from .. import _alike, _native
from .._process_sets import ProcessSet

REMEDY = "call hvd.broadcast_parameters(model.state_dict(), root_rank=0) before the first step"


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of any type and device as bytes on the host; copied only where it must be."""
    tensor = tensor.detach().resolve_conj()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return on_host(tensor).reshape(-1).view(torch.uint8)


def _label(number: int, name: str, parameter: torch.Tensor) -> str:
    shape = f"of shape {tuple(parameter.shape)}"
    return f"parameter {number} of the optimizer, {shape}," if name.startswith("noname.") else f"parameter {name} {shape}"


def warn_if_different(
    names: Sequence[str], parameters: Sequence[torch.Tensor], name: str, process_set: ProcessSet
) -> None:
    """Blocks until all ranks of the set have called it with the same ``name``. One of them warns."""
    digests = [_native.digest(native(_bytes_of(parameter))) for parameter in parameters]
    labels = [_label(i, each, parameter) for i, (each, parameter) in enumerate(zip(names, parameters))]
    _alike.warn_if_different(labels, digests, name, process_set, REMEDY)
