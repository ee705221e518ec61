"""Horovod for Keras."""

from horovod._absent import front_end

front_end("horovod.keras", "rueda.keras")
from rueda.keras import *  # noqa: E402,F401,F403
