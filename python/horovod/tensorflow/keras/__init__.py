"""The same as ``horovod.keras``, by its other name."""

from horovod.keras import *  # noqa: F401,F403
from horovod.keras import callbacks, elastic  # noqa: F401
