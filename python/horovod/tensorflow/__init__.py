"""``import horovod.tensorflow as hvd``, served by ``rueda.tensorflow``."""

from typing import Any

from horovod._absent import front_end

_served = front_end("horovod.tensorflow", "rueda.tensorflow")

from rueda.tensorflow import *  # noqa: E402,F401,F403

from horovod.common.basics import *  # noqa: E402,F401,F403
from horovod.common.exceptions import HorovodInternalError  # noqa: E402,F401


def __getattr__(name: str) -> Any:
    """What is loaded when it is asked for: ``SyncBatchNormalization``."""
    return getattr(_served, name)
