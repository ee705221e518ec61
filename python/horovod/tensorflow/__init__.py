"""``import horovod.tensorflow as hvd``, served by ``rueda.tensorflow``."""

from typing import Any

from horovod._absent import front_end

_served = front_end("horovod.tensorflow", "rueda.tensorflow")

from rueda.tensorflow import *  # noqa: E402,F401,F403

from horovod.common.basics import *  # noqa: E402,F401,F403
from horovod.common.exceptions import HorovodInternalError  # noqa: E402,F401
from horovod.tensorflow import mpi_ops  # noqa: E402,F401
from horovod.tensorflow.functions import *  # type: ignore[assignment] # noqa: E402,F401,F403
from horovod.tensorflow.gradients import *  # type: ignore[assignment] # noqa: E402,F401,F403
from horovod.tensorflow.mpi_ops import (  # noqa: E402,F401
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)


def __getattr__(name: str) -> Any:
    """What is loaded when it is asked for: ``SyncBatchNormalization``."""
    return getattr(_served, name)
