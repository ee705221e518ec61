"""PyTorch's tensors as the engine reads them, and its output as tensors.

Whatever the engine cannot read where it lies (strided tensors, tensors on a GPU) goes through a contiguous
copy on the host, and the result goes back to where the input was.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch

from .. import _native
from .._tensors import Tensors

_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    getattr(torch, "uint16", None),
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
_COMBINABLE = frozenset(_DTYPES)
_HAS_EXCHANGE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


def check_tensor(tensor: Any, name: Optional[str]) -> None:
    """Refuses what cannot be combined, by name."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"tensor {name or '(no name)'}: {type(tensor).__name__} is not a torch.Tensor")
    if tensor.layout is not torch.strided:
        raise ValueError(
            f"tensor {name or '(no name)'} is sparse: use sparse_allreduce_async, or make it dense"
        )
    if tensor.dtype not in _COMBINABLE:
        raise ValueError(
            f"tensor {name or '(no name)'}: {tensor.dtype} cannot be combined"
            + ("; use torch.view_as_real" if tensor.is_complex() else "")
        )


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, where the engine can read it, or a copy that it can."""
    if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    return tensor.detach().cpu().contiguous().resolve_neg()


def native(tensor: torch.Tensor) -> Any:
    """A contiguous host tensor as the extension reads it."""
    if _HAS_EXCHANGE:
        return tensor
    return (tensor.data_ptr(), _DTYPES.index(tensor.dtype), tuple(tensor.shape), tensor)


class TorchTensors(Tensors[torch.Tensor, torch.Tensor]):
    """Every tensor is given and got as it is; gradients are not followed here."""

    def readable(self, tensor: torch.Tensor, name: Optional[str]) -> torch.Tensor:
        check_tensor(tensor, name)
        return on_host(tensor)

    def writable(self, tensor: torch.Tensor, name: Optional[str]) -> torch.Tensor:
        return tensor

    def empty_like(self, source: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(source)

    def native(self, source: torch.Tensor) -> Any:
        return native(source)

    def beside(self, given: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        return result if given.is_cpu else result.to(given.device)

    def fill(self, target: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return target.copy_(result)

    def from_output(self, request: _native.Request, source: torch.Tensor) -> Tuple[torch.Tensor, Tuple[int, ...]]:
        capsule, shape, splits = request.output()
        if 0 in shape:
            return torch.empty(shape, dtype=source.dtype), splits
        return torch.from_dlpack(capsule).view(source.dtype).reshape(shape), splits

    def counts(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32)
