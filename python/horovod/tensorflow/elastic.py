"""Training that goes on after a failure, for TensorFlow."""

from horovod._absent import front_end

front_end("horovod.tensorflow.elastic", "rueda.tensorflow.elastic")

from rueda.tensorflow.elastic import *  # noqa: E402,F401,F403
