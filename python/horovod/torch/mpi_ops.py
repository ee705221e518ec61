"""The operations on tensors; there is no MPI in them but the name. Here are those whose arguments are Horovod's own;
the others are Rueda's as they are."""

from __future__ import annotations

from typing import Callable, List, Optional, Sequence, Type, TypeVar

import rueda.torch as _served
import torch
from rueda.torch import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    poll,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
    synchronize,
)

from horovod.common import basics as _basics
from horovod.common._average import resolve_op
from horovod.common.basics import *  # noqa: F401,F403
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from horovod.torch.compression import Compression, Compressor

__all__ = [
    *_basics.__all__,
    "HorovodInternalError",
    "ProcessSet",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "sparse_allreduce_async",
    "synchronize",
]

_Result = TypeVar("_Result")


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """``rueda.torch.allreduce``; ``average=False`` is ``op=Sum``."""
    return _served.allreduce(
        tensor,
        name=name,
        compression=compression,
        op=resolve_op(average, op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """``rueda.torch.grouped_allreduce``; ``average=False`` is ``op=Sum``."""
    return _served.grouped_allreduce(
        tensors,
        name=name,
        compression=compression,
        op=resolve_op(average, op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )


def _with_average(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """The same function of a tensor, with Horovod's arguments in Horovod's order."""

    def call(
        tensor: torch.Tensor,
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> _Result:
        return function(
            tensor,
            name=name,
            op=resolve_op(average, op),
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )

    return _named_after(function, call)


def _grouped_with_average(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """The same for a function of a list of tensors."""

    def call(
        tensors: Sequence[torch.Tensor],
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> _Result:
        return function(
            tensors,
            name=name,
            op=resolve_op(average, op),
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )

    return _named_after(function, call)


def _named_after(function: Callable[..., _Result], call: Callable[..., _Result]) -> Callable[..., _Result]:
    """Not functools.wraps: the signature is Horovod's."""
    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"``rueda.torch.{function.__name__}``; ``average=False`` is ``op=Sum``."
    return call


allreduce_ = _with_average(_served.allreduce_)
allreduce_async = _with_average(_served.allreduce_async)
allreduce_async_ = _with_average(_served.allreduce_async_)
grouped_allreduce_ = _grouped_with_average(_served.grouped_allreduce_)
grouped_allreduce_async = _grouped_with_average(_served.grouped_allreduce_async)
grouped_allreduce_async_ = _grouped_with_average(_served.grouped_allreduce_async_)


def join(device: int = -1) -> int:
    """``rueda.torch.join``; no device is needed for it."""
    return _served.join()
