"""``import horovod.tensorflow as hvd``, served by ``rueda.tensorflow``."""

from horovod._absent import front_end

front_end("horovod.tensorflow", "rueda.tensorflow")

from rueda.tensorflow import *  # noqa: E402,F401,F403

from horovod.common.basics import *  # noqa: E402,F401,F403
from horovod.common.exceptions import HorovodInternalError  # noqa: E402,F401
