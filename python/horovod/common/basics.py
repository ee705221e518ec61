"""The life of a job and who we are in it, in Horovod's words."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

import rueda
from rueda import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_initialized,
    mpi_built,
    mpi_enabled,
    nccl_built,
    rocm_built,
    shutdown,
)

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "Product",
    "Sum",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

_Call = TypeVar("_Call", bound=Callable[..., Any])


def _needs_init(function: _Call) -> _Call:
    """The same function, whose error before ``init()`` is the sentence that Horovod's users know."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not is_initialized():
            raise ValueError("Horovod has not been initialized; use hvd.init().")
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


size = _needs_init(rueda.size)
local_size = _needs_init(rueda.local_size)
cross_size = _needs_init(rueda.cross_size)
rank = _needs_init(rueda.rank)
local_rank = _needs_init(rueda.local_rank)
cross_rank = _needs_init(rueda.cross_rank)
is_homogeneous = _needs_init(rueda.is_homogeneous)
mpi_threads_supported = _needs_init(rueda.mpi_threads_supported)
start_timeline = _needs_init(rueda.start_timeline)
stop_timeline = _needs_init(rueda.stop_timeline)
