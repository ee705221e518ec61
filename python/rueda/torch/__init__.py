"""Rueda for PyTorch: ``import rueda.torch as hvd``.

    hvd.init()                                                   # 1: join the job
    torch.cuda.set_device(hvd.local_rank())                      # 2: a GPU of our own, where there are any
    sampler = DistributedSampler(data, hvd.size(), hvd.rank())   # 3: our own part of the data
    optimizer = hvd.DistributedOptimizer(optimizer)              # 4: combine gradients
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)    # 5: begin alike
"""

from __future__ import annotations

from typing import List

from .. import _basics, _process_sets, _reduce_op
from .._basics import *  # noqa: F401,F403
from .._calls import Handle, barrier, barrier_async, join, join_async, poll, synchronize
from .._process_sets import *  # noqa: F401,F403
from .._reduce_op import *  # noqa: F401,F403
from ._autograd import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from ._ops import (
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    reducescatter_async,
)
from ._messages import recv, recv_, recv_any, recv_any_async, recv_async, recv_async_, send, send_async
from ._sparse import sparse_allreduce_async
from . import elastic
from .compression import Compression
from .functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
    metric_average,
    orthogonality,
)
from .optimizer import DistributedOptimizer
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "Handle",
    "SyncBatchNorm",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "barrier_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "join_async",
    "metric_average",
    "orthogonality",
    "poll",
    "recv",
    "recv_",
    "recv_any",
    "recv_any_async",
    "recv_async",
    "recv_async_",
    "reducescatter",
    "reducescatter_async",
    "send",
    "send_async",
    "sparse_allreduce_async",
    "synchronize",
]
__all__ += _basics.__all__
__all__ += _process_sets.__all__
__all__ += _reduce_op.__all__

for _constant in (rank, size, local_rank, local_size, cross_rank, cross_size):  # noqa: F405
    # they may stand in compiled graphs: torch.compiler.assume_constant_result without its slow import
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def __dir__() -> List[str]:
    return sorted(__all__)
