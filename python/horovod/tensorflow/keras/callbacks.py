"""The same as ``horovod.keras.callbacks``."""

from horovod.keras.callbacks import *  # noqa: F401,F403
