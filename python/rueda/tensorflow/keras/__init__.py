"""The same as ``rueda.keras``, by Horovod's other name."""

from ...keras import *  # noqa: F401,F403
from ...keras import DistributedOptimizer, allgather, allreduce, broadcast, callbacks, load_model, reducescatter
