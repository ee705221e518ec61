"""Rueda for Keras on TensorFlow: ``import rueda.keras as hvd``.

hvd.init()                                                        # 1: join the job
model.compile(hvd.DistributedOptimizer(optimizer), …)             # 2: combine gradients
callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),   # 3: start from the same values
             hvd.callbacks.MetricAverageCallback()]               #    and average the metrics
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypeVar, cast

import tensorflow as _tf

from .. import _basics, _process_sets, _reduce_op
from .._basics import *  # noqa: F401,F403
from .._process_sets import *  # noqa: F401,F403
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import *  # noqa: F401,F403
from .._reduce_op import Average
from ..tensorflow import optimizer as _optimizers
from ..tensorflow import _ops
from ..tensorflow._gradients import weights_of as _weights_of
from ..tensorflow.compression import Compression
from ..tensorflow.functions import allgather_object, broadcast_object, orthogonality
from ..tensorflow.functions import broadcast_global_variables as _broadcast_global_variables
from . import callbacks, elastic
from ._which import keras as _keras

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "callbacks",
    "elastic",
    "load_model",
    "orthogonality",
    "reducescatter",
]
__all__ += _basics.__all__
__all__ += _process_sets.__all__
__all__ += _reduce_op.__all__

Optimizer = TypeVar("Optimizer")


def __dir__() -> List[str]:
    return sorted(__all__)


def DistributedOptimizer(
    optimizer: Optimizer,
    name: Optional[str] = None,
    *,
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: Any = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Optimizer:
    """Wraps a Keras optimizer so that its step uses the gradients of all ranks, or, with ``op=Adasum``, so
    that the updates of all ranks are combined."""
    return _optimizers.DistributedOptimizer(
        optimizer,
        name=name,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=backward_passes_per_step,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedOptimizer(
    optimizer: Optimizer, name: Optional[str] = None, *, local_layers: Any = None, **keywords: Any
) -> Optimizer:
    """The same for a model with layers that every rank has for itself: their gradients stay local. The
    layers, one or a list, must be built."""
    wrapped: Any = DistributedOptimizer(optimizer, name, **keywords)
    for variable in _weights_of(local_layers):
        wrapped.register_local_var(variable)
    return cast(Optimizer, wrapped)


def load_model(
    filepath: Any,
    custom_optimizers: Optional[Any] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Any = Compression.none,
    **keywords: Any,
) -> Any:
    """Loads a model, and makes its optimizer a distributed one."""
    objects = {each.__name__: each for each in custom_optimizers or []}
    objects.update(custom_objects or {})
    model = _keras.models.load_model(filepath, custom_objects=objects, **keywords)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        model.optimizer = DistributedOptimizer(optimizer, compression=compression)
        model.jit_compile = False  # loading may have chosen XLA, which has no operations of ours
    return model


def _value(result: Any) -> Any:
    """The tensor, eager and in a ``tf.function``. A graph of version 1 computes it at once, in its session."""
    session = None if _tf.inside_function() else _tf.compat.v1.get_default_session()
    return result if _tf.executing_eagerly() or session is None else session.run(result)


def allreduce(
    value: Any,
    name: Optional[str] = None,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int = Average,
    compression: Any = Compression.none,
) -> Any:
    """Combines a value over all ranks; a tensor."""
    return _value(
        _ops.allreduce(
            value,
            name=name,
            op=op,
            compression=compression,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
    )


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """The ranks' values one after the other, as a tensor."""
    return _value(_ops.allgather(value, name))


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """The value of ``root_rank``, as a tensor."""
    return _value(_ops.broadcast(value, root_rank, name))


def reducescatter(value: Any, name: Optional[str] = None, *, op: int = Average) -> Any:
    """Our share of the combined rows, as a tensor."""
    return _value(_ops.reducescatter(value, name=name, op=op))


def broadcast_global_variables(root_rank: int) -> Any:
    """Gives all global variables of a graph of version 1 the values of ``root_rank``."""
    return _value(_broadcast_global_variables(root_rank))
