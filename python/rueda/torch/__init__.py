"""Rueda for PyTorch: ``import rueda.torch as hvd``.

    hvd.init()                                                   # 1: join the job
    torch.set_num_threads(…)                                     # 2: or pin a GPU by hvd.local_rank()
    optimizer = hvd.DistributedOptimizer(optimizer)              # 3: combine gradients
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)    # 4: start from the same values
"""

from __future__ import annotations

from .._basics import *  # noqa: F401,F403
from .._process_sets import *  # noqa: F401,F403
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
    Handle,
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    join,
    poll,
    reducescatter_async,
    synchronize,
)
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

for _constant in (rank, size, local_rank, local_size, cross_rank, cross_size):  # noqa: F405
    # they may stand in compiled graphs: torch.compiler.assume_constant_result without its slow import
    _constant._dynamo_marked_constant = True

__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
