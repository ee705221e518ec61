"""Horovod for TensorFlow."""

from horovod._absent import front_end

front_end("horovod.tensorflow", "rueda.tensorflow")
from rueda.tensorflow import *  # noqa: E402,F401,F403
