"""Rueda for TensorFlow: ``import rueda.tensorflow as hvd``.

    hvd.init()                                                    # 1: join the job
    tape = hvd.DistributedGradientTape(tape)                      # 2: combine gradients
    hvd.broadcast_variables(model.variables, root_rank=0)         # 3: start from the same values
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

from .. import _basics, _process_sets, _reduce_op
from .._basics import *  # noqa: F401,F403
from .._process_sets import *  # noqa: F401,F403
from .._reduce_op import *  # noqa: F401,F403
from . import elastic
from ._ops import (
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from .compression import Compression
from .functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
    orthogonality,
)
from .optimizer import DistributedOptimizer
from .tape import DistributedGradientTape, PartialDistributedGradientTape

if TYPE_CHECKING:
    from .sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "PartialDistributedGradientTape",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "elastic",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "orthogonality",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "size_op",
]
__all__ += _basics.__all__
__all__ += _process_sets.__all__
__all__ += _reduce_op.__all__


def __getattr__(name: str) -> Any:
    """The one name that needs Keras is loaded when it is asked for, and not by ``import *``."""
    if name != "SyncBatchNormalization":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .sync_batch_norm import SyncBatchNormalization

    return SyncBatchNormalization


def __dir__() -> List[str]:
    return sorted([*__all__, "SyncBatchNormalization"])
