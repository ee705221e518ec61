"""What ``horovod.keras`` and ``horovod.tensorflow.keras`` share. The first argument, Keras or its backend, is
there for Horovod's sake: it is always the Keras that ``tf.keras`` is."""

from __future__ import annotations

from typing import Any, Optional

import horovod.keras as _served
from horovod._keras import callbacks, elastic  # noqa: F401


def create_distributed_optimizer(keras: Any, optimizer: Any, name: Optional[str] = None, *args: Any, **kwargs: Any) -> Any:
    """``DistributedOptimizer``."""
    return _served.DistributedOptimizer(optimizer, name, *args, **kwargs)


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    """Gives all ranks the global variables of ``root_rank``."""
    return _served.broadcast_global_variables(root_rank)


def allreduce(backend: Any, value: Any, name: Optional[str] = None, *args: Any, **kwargs: Any) -> Any:
    """The value combined over all ranks."""
    return _served.allreduce(value, name, *args, **kwargs)


def allgather(backend: Any, value: Any, name: Optional[str] = None) -> Any:
    """The ranks' values one after the other."""
    return _served.allgather(value, name)


def broadcast(backend: Any, value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """The value of ``root_rank``."""
    return _served.broadcast(value, root_rank, name)


def reducescatter(backend: Any, value: Any, name: Optional[str] = None, *args: Any, **kwargs: Any) -> Any:
    """Our share of the combined rows."""
    return _served.reducescatter(value, name, *args, **kwargs)
