"""Start values and objects that all ranks should share."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow as tf

from .. import _native
from .._objects import allgather_object, broadcast_object, broadcast_object_fn
from .._process_sets import ProcessSet, global_process_set
from . import _ops

__all__ = [
    "BroadcastGlobalVariablesHook",
    "allgather_object",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "orthogonality",
]


@_ops.as_it_is
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the values of ``root_rank``. Eager it blocks until all are there; in a graph it is
    the operation that does it."""
    variables = list(variables)
    if not variables:
        return tf.no_op() if not tf.executing_eagerly() else None
    place = _ops.call_site("broadcast.variable")
    names = [f"{place}.{i}" for i in range(len(variables))]
    values = _ops.broadcast_all([tf.convert_to_tensor(v) for v in variables], root_rank, names, process_set)
    assigned = [variable.assign(value) for variable, value in zip(variables, values)]
    if tf.executing_eagerly():
        return None
    return tf.group(*[each for each in assigned if each is not None])


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """The same; gives the variables, or in a graph their new values."""
    done = broadcast_variables(variables, root_rank, process_set)
    if tf.executing_eagerly():
        return list(variables)
    with tf.control_dependencies([done]):
        return [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives all global variables of a graph of version 1 the values of ``root_rank``."""
    if tf.executing_eagerly():
        raise RuntimeError("broadcast_global_variables is for graphs of version 1; use broadcast_variables")
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives every rank the start values of ``root_rank`` when a session has been made."""

    def __init__(self, root_rank: int) -> None:
        super().__init__()
        self.root_rank = root_rank
        self._operation: Any = None
        self._graph: Any = None

    def begin(self) -> None:
        graph = tf.compat.v1.get_default_graph()
        if self._operation is None or self._graph is not graph:
            self._graph = graph
            self._operation = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._operation)


def orthogonality(of: Any = None) -> Any:
    """How much the ranks' updates differed in the last Adasum: 1 when they were orthogonal (every worker
    adds something of its own), 1/size when they were equal (one worker would have done); opposed ones give
    less.

    ``of``: None for all together; the name given to an allreduce; or a ``DistributedOptimizer`` or tape,
    which gives a dict by variable. NaN before the first Adasum.
    """
    combiner = getattr(of, "_rueda_combiner", None)
    if combiner is not None:
        return combiner.orthogonality()
    return _native.orthogonality(None if of is None else _ops.full_name("allreduce", of))
