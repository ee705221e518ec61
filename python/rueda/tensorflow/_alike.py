"""Whether the ranks begin with the same variables; asked where gradients are combined, by the steps themselves.

Programs may broadcast before the first step or, as it is usual where variables are made by it, right after: so the
first step compares, and if it finds a difference the second compares again before anything is said. In a graph a
step that has nothing to compare costs one small operation.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

from . import _ops
from .. import _alike, _native
from .._process_sets import ProcessSet
from ._library import operations, set_due

REMEDY = (
    "call hvd.broadcast_variables(model.variables, root_rank=0) before the first step, or give model.fit "
    "hvd.callbacks.BroadcastGlobalVariablesCallback(0) (in sessions: hvd.BroadcastGlobalVariablesHook(0))"
)
_U8 = 1
_keys = itertools.count()


class Check:
    """The comparison of some variables, over one or two steps."""

    def __init__(self, labels: List[str], name: str, process_set: ProcessSet) -> None:
        self._labels, self._name, self._process_set = labels, name, process_set
        self._is_second = False
        self.is_due = True
        self.key = next(_keys)
        set_due(self.key, True)

    def compare(self, *values: np.ndarray) -> np.int32:
        """Blocks until all ranks of the set have called it."""
        digests = [_native.digest(_bytes_of(value)) for value in values]
        found = _alike.find_difference(digests, self._name, self._process_set)
        if found is not None and self._is_second:
            _alike.warn(found, self._labels, REMEDY)
        self.is_due = found is not None and not self._is_second
        self._is_second = True
        set_due(self.key, self.is_due)
        return np.int32(0)


_checks: Dict[Tuple[int, int, int, int], Check] = {}  # by what they compare, as long as that lives


def _find_check(variables: List[Any], labels: List[str], name: str, process_set: ProcessSet) -> Check:
    what = (_native.generation(), process_set._require_id(), id(variables[0]), len(variables))
    if what not in _checks:
        _checks[what] = Check(labels, name, process_set)
        weakref.finalize(variables[0], _checks.pop, what, None)
    return _checks[what]


def _bytes_of(value: np.ndarray) -> Tuple[int, int, Tuple[int, ...], np.ndarray]:
    data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return (data.__array_interface__["data"][0], _U8, data.shape, data)


def compare_first(variables: Sequence[Any], label: Callable[[Any], str], name: str, process_set: ProcessSet) -> Optional[Any]:
    """In the first steps: whether the variables are the same on all ranks; one rank warns if not. In a graph the
    operation that does it; None: it is done, or there is nothing to do."""
    compared = [v for v in variables if hasattr(v, "assign")]
    if not compared:
        return None
    labels = [f"variable {label(v)} of shape {tuple(v.shape)}" for v in compared]
    check = _find_check(compared, labels, f"{name}.alike", process_set)
    if tf.executing_eagerly():
        if check.is_due:
            check.compare(*[tf.convert_to_tensor(v).numpy() for v in compared])
        return None

    def compare() -> Any:
        return tf.numpy_function(check.compare, [tf.convert_to_tensor(v) for v in compared], tf.int32)

    due = operations.rueda_due(guard=_ops.guard(), key=check.key)
    return tf.cond(due, compare, lambda: tf.constant(0, tf.int32))
