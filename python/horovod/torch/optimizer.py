"""The user's optimizer, with gradients combined over all ranks."""

from __future__ import annotations

from typing import Any, Type, TypeVar

import rueda.torch.optimizer as _served
import torch
from rueda import Average, ProcessSet, global_process_set
from rueda.torch.compression import Compression, Compressor

from horovod.common._groups import resolve_groups

__all__ = ["DistributedOptimizer"]

Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)


def DistributedOptimizer(
    optimizer: Optimizer,
    named_parameters: _served.Named = None,
    compression: Type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Optimizer:
    """``rueda.torch.DistributedOptimizer``; ``num_groups=2`` is ``groups=2``."""
    return _served.DistributedOptimizer(
        optimizer,
        named_parameters,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups=resolve_groups(groups, num_groups),
        sparse_as_dense=sparse_as_dense,
        process_set=process_set,
    )
