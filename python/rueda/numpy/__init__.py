"""Rueda for NumPy: the operations on arrays, in one line each.

    import numpy as np
    import rueda.numpy as hvd

    hvd.init()
    mean = hvd.allreduce(np.arange(3.0) * hvd.rank())     # start it with: rueda run -np 4 python this.py
"""

from __future__ import annotations

from .._basics import *  # noqa: F401,F403
from .._calls import Handle, poll, synchronize
from .._objects import allgather_object, broadcast_object, broadcast_object_fn
from .._process_sets import *  # noqa: F401,F403
from ._ops import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    join,
    reducescatter,
    reducescatter_async,
)

__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
