"""The same as ``rueda.keras``, by Horovod's other name."""

from ...keras import *  # noqa: F401,F403
from . import callbacks, elastic  # type: ignore[no-redef] # noqa: F401
