"""The same as ``horovod.keras.elastic``."""

from horovod.keras.elastic import *  # noqa: F401,F403
