"""``import horovod.keras as hvd``, served by ``rueda.keras``."""

from horovod._absent import front_end

front_end("horovod.keras", "rueda.keras")

from rueda.keras import *  # noqa: E402,F401,F403

from horovod.common.basics import *  # noqa: E402,F401,F403
from horovod.common.exceptions import HorovodInternalError  # noqa: E402,F401
import horovod.keras.callbacks as callbacks  # type: ignore[no-redef] # noqa: E402,F401 # `from` would give rueda's
import horovod.keras.elastic as elastic  # type: ignore[no-redef] # noqa: E402,F401
from horovod.keras._wrappers import *  # noqa: E402,F401,F403
