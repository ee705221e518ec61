"""Functions for Keras with Horovod's arguments. Devices say nothing: an operation runs where its tensor is."""

from __future__ import annotations

from typing import Any, Optional, TypeVar, cast

import rueda.keras as _served
from rueda import Average, ProcessSet, global_process_set
from rueda.keras import Compression
from rueda.tensorflow._gradients import weights_of

from horovod.common._average import resolve_op
from horovod.common._groups import resolve_groups

__all__ = ["DistributedOptimizer", "PartialDistributedOptimizer", "allreduce", "reducescatter"]

Optimizer = TypeVar("Optimizer")


def DistributedOptimizer(
    optimizer: Optimizer,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: Any = None,
    num_groups: int = 0,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Optimizer:
    """``rueda.keras.DistributedOptimizer``."""
    return _served.DistributedOptimizer(
        optimizer,
        name,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        groups=resolve_groups(groups, num_groups),
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedOptimizer(
    optimizer: Optimizer, *args: Any, local_layers: Any = None, **keywords: Any
) -> Optimizer:
    """``rueda.keras.PartialDistributedOptimizer``."""
    wrapped: Any = DistributedOptimizer(optimizer, *args, **keywords)
    for variable in weights_of(local_layers):
        wrapped.register_local_var(variable)
    return cast(Optimizer, wrapped)


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[int] = None,
    compression: Any = Compression.none,
) -> Any:
    """``rueda.keras.allreduce``; ``average=False`` is ``op=Sum``."""
    return _served.allreduce(
        value,
        name,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        op=resolve_op(average, op),
        compression=compression,
    )


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average) -> Any:
    """``rueda.keras.reducescatter``."""
    return _served.reducescatter(value, name, op=op)
