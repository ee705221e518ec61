"""Rueda for TensorFlow: ``import rueda.tensorflow as hvd``.

    hvd.init()                                                    # 1: join the job
    tape = hvd.DistributedGradientTape(tape)                      # 2: combine gradients
    hvd.broadcast_variables(model.variables, root_rank=0)         # 3: start from the same values
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._basics import *  # noqa: F401,F403
from .._process_sets import *  # noqa: F401,F403
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
    from .sync_batch_norm import SyncBatchNormalization

_OURS = {"Any", "TYPE_CHECKING", "annotations"}

__all__ = [name for name in dir() if not name.startswith("_") and name not in _OURS]


def __getattr__(name: str) -> Any:
    """The one name that needs Keras is loaded when it is asked for, and not by ``import *``."""
    if name != "SyncBatchNormalization":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .sync_batch_norm import SyncBatchNormalization

    return SyncBatchNormalization
