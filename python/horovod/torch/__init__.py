"""``import horovod.torch as hvd``: the operations, the optimizer and the rest, served by ``rueda.torch``."""

from rueda.torch import adasum, metric_average, orthogonality

from horovod.torch import elastic
from horovod.torch.compression import Compression
from horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from horovod.torch.mpi_ops import *  # noqa: F401,F403
from horovod.torch.mpi_ops import __all__ as _operations
from horovod.torch.optimizer import DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    *_operations,
    "Compression",
    "DistributedOptimizer",
    "SyncBatchNorm",
    "adasum",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "metric_average",
    "orthogonality",
]
