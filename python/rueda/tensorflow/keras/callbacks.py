"""The same as ``rueda.keras.callbacks``."""

from ...keras.callbacks import *  # noqa: F401,F403
