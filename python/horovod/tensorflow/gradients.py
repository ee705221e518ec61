"""Tapes and optimizers with Horovod's arguments. Devices say nothing: an operation runs where its tensor is."""

from __future__ import annotations

from typing import Any, Optional, TypeVar, cast

import rueda.tensorflow as _served
from rueda import Average, ProcessSet, global_process_set
from rueda.tensorflow import Compression
from rueda.tensorflow._gradients import combining

from horovod.common._groups import resolve_groups

__all__ = ["DistributedGradientTape", "DistributedOptimizer", "PartialDistributedGradientTape"]

Optimizer = TypeVar("Optimizer")
Tape = TypeVar("Tape")


class _TapeMixin:
    """Names on the wire are made of positions in any case."""

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False, **kwargs: Any
    ) -> Any:
        return super().gradient(target, sources, output_gradients, **kwargs)  # type: ignore[misc]


def _with_generic_names(tape: Any) -> Any:
    return combining(_TapeMixin, tape, tape._rueda_combiner)


def DistributedGradientTape(
    gradtape: Tape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Tape:
    """``rueda.tensorflow.DistributedGradientTape``."""
    return PartialDistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        None,
        scale_local_gradients,
    )


def PartialDistributedGradientTape(
    gradtape: Tape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Optional[Any] = None,
    scale_local_gradients: bool = True,
) -> Tape:
    """``rueda.tensorflow.PartialDistributedGradientTape``."""
    tape = _served.PartialDistributedGradientTape(
        gradtape,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        groups=resolve_groups(groups, num_groups),
        process_set=process_set,
        local_layers=local_layers,
        scale_local_gradients=scale_local_gradients,
    )
    return cast(Tape, _with_generic_names(tape))


def DistributedOptimizer(
    optimizer: Optimizer,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Optimizer:
    """``rueda.tensorflow.DistributedOptimizer``."""
    return _served.DistributedOptimizer(
        optimizer,
        name,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=backward_passes_per_step,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=resolve_groups(groups, num_groups),
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
