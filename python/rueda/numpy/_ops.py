"""The operations on arrays; what each does is told in ``rueda/_operations.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._operations import Operations
from ._arrays import Arrays

__all__ = [
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "reducescatter",
    "reducescatter_async",
]

_operations: Operations[Any, np.ndarray] = Operations(Arrays())

allgather = _operations.allgather
allgather_async = _operations.allgather_async
allreduce = _operations.allreduce
allreduce_ = _operations.allreduce_
allreduce_async = _operations.allreduce_async
allreduce_async_ = _operations.allreduce_async_
alltoall = _operations.alltoall
alltoall_async = _operations.alltoall_async
broadcast = _operations.broadcast
broadcast_ = _operations.broadcast_
broadcast_async = _operations.broadcast_async
broadcast_async_ = _operations.broadcast_async_
grouped_allgather = _operations.grouped_allgather
grouped_allgather_async = _operations.grouped_allgather_async
grouped_allreduce = _operations.grouped_allreduce
grouped_allreduce_ = _operations.grouped_allreduce_
grouped_allreduce_async = _operations.grouped_allreduce_async
grouped_allreduce_async_ = _operations.grouped_allreduce_async_
grouped_reducescatter = _operations.grouped_reducescatter
grouped_reducescatter_async = _operations.grouped_reducescatter_async
reducescatter = _operations.reducescatter
reducescatter_async = _operations.reducescatter_async
