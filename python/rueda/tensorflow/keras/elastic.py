"""The same as ``rueda.keras.elastic``."""

from ...keras.elastic import *  # noqa: F401,F403
