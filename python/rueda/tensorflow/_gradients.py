"""How a list of gradients is combined, whoever asks: tape, optimizer of version 1, or Keras."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import tensorflow as tf

from .. import _native
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Adasum, Average, Min, Sum
from . import _ops
from ._alike import compare_first
from .compression import Compression

MAX_NAME = 200  # bytes; the engine takes more, but its own words come before


class Combiner:
    """How the gradients of a step are combined, and which variables stay each rank's own."""

    def __init__(
        self,
        op: int = Average,
        predivide: float = 1.0,
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        groups: Any = None,
    ) -> None:
        """Checks the keywords that all wrappers have. ``groups``: how many, or lists of variables whose
        gradients travel together."""
        if op not in (Average, Sum, Adasum):
            raise ValueError("op must be Average, Sum or Adasum")
        if groups is not None and not (isinstance(groups, list) or (isinstance(groups, int) and groups >= 0)):
            raise ValueError("groups must be a whole number, or a list of lists of variables")
        if predivide != 1.0 and op != Average:
            raise ValueError("gradient_predivide_factor goes with op=Average only")
        self.op, self.process_set = op, process_set
        self._predivide, self._compression = predivide, compression
        self._sparse_as_dense, self._scales_local = sparse_as_dense, scale_local_gradients
        self._groups = groups or 0
        self._local: Set[Any] = set()
        self._names: Dict[str, str] = {}  # on the wire in the last step, by the variables' own names

    def keep_local(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._local.add(variable_key(variable))

    def is_shared(self, variable: Any) -> bool:
        return variable_key(variable) not in self._local

    @_ops.as_it_is
    def combine(self, gradients: Sequence[Any], variables: Sequence[Any], prefix: str = "gradient") -> List[Any]:
        """The gradients of all ranks, in the same order; None stays None."""
        results = list(gradients)
        if self.process_set.size() == 1 or not self.process_set.included():
            return results
        names = _wire_names(prefix, variables)
        labels = [_label(v) for v in variables]
        self._names = {
            label if labels.count(label) == 1 else f"{label}.{i}": names[i] for i, label in enumerate(labels)
        }
        shared = [i for i, v in enumerate(variables) if results[i] is not None and self.is_shared(v)]
        for i, gradient in enumerate(results):
            if gradient is not None and i not in shared and self._scales_local:
                results[i] = scale(gradient, 1.0 / self.process_set.size())
        for i in shared:
            if isinstance(results[i], tf.IndexedSlices) and (self._sparse_as_dense or self.op == Adasum):
                results[i] = tf.convert_to_tensor(results[i])
        if prefix == "gradient":
            self._check_beginning([variables[i] for i in shared], results, shared, names)
        dense = [i for i in shared if not isinstance(results[i], tf.IndexedSlices)]
        self._combine_dense(results, names, dense, self._group([variables[i] for i in dense]))
        for i in shared:
            if isinstance(results[i], tf.IndexedSlices):
                results[i] = _ops.allreduce(results[i], op=self.op, name=names[i], process_set=self.process_set)
        return results

    def check_beginning(self, variables: Sequence[Any], name: str) -> Optional[Any]:
        """Whether the ranks begin with the same variables; see ``_alike``."""
        return compare_first(variables, _label, name, self.process_set)

    def _check_beginning(
        self, variables: List[Any], results: List[Any], shared: List[int], names: List[str]
    ) -> None:
        """The gradients are used after it: a ``tf.function`` sees to that by itself."""
        done = self.check_beginning(variables, names[shared[0]]) if shared else None
        if done is None or tf.inside_function():
            return
        with tf.control_dependencies([done]):
            for i in shared:
                results[i] = tf.nest.map_structure(tf.identity, results[i], expand_composites=True)

    def _group(self, variables: List[Any]) -> List[List[int]]:
        """Positions of those that travel together; variables in no group travel alone."""
        count = len(variables)
        if isinstance(self._groups, int):
            groups = min(self._groups, count) or count
            return [list(range(count * g // groups, count * (g + 1) // groups)) for g in range(groups)]
        position = {variable_key(v): i for i, v in enumerate(variables)}
        chosen = [[position.pop(k) for k in map(variable_key, group) if k in position] for group in self._groups]
        return [group for group in chosen if group] + [[i] for i in position.values()]

    def _combine_dense(
        self, results: List[Any], names: List[str], which: List[int], groups: List[List[int]]
    ) -> None:
        """Replaces those gradients; all are started before one is waited for."""
        if not which:
            return
        op, scales = self.op, (1.0, 1.0)
        if self._predivide != 1.0:
            op, scales = Sum, (1.0 / self._predivide, self._predivide / self.process_set.size())
        combined = _ops.grouped_allreduce_named(
            [results[i] for i in which],
            [_ops.full_name("allreduce", names[i]) for i in which],
            self._compression,
            op,
            scales,
            self.process_set,
            groups,
        )
        for i, gradient in zip(which, combined):
            results[i] = gradient

    def orthogonality(self) -> Dict[str, float]:
        """Of the last step with Adasum, by variable; NaN where there was none."""
        return {own: _native.orthogonality(_ops.full_name("allreduce", wire)) for own, wire in self._names.items()}

    @_ops.as_it_is
    def agree(self, flag: Any) -> Any:
        """Whether it is true on all ranks."""
        if self.process_set.size() == 1 or not self.process_set.included():
            return flag
        name = _ops.call_site("agree")
        least = _ops.allreduce(tf.cast(flag, tf.uint8), op=Min, name=name, process_set=self.process_set)
        return tf.cast(least, tf.bool)


def combining(mixin: type, instance: Any, combiner: Combiner, **more: Any) -> Any:
    """The same tape or optimizer, of a class that the mixin comes before; it keeps name and module, so that
    what is saved can be loaded without us. ``more``: other members of the class. Both have one state: a tape may
    be wrapped while it records."""
    kind: Any = type(instance)
    members = {"__module__": kind.__module__, "_rueda_combiner": combiner, **more}
    changed = kind.__new__(type(kind.__name__, (mixin, kind), members))
    object.__setattr__(changed, "__dict__", instance.__dict__)
    return changed


def variable_key(variable: Any) -> Any:
    """What tells variables apart; Keras' hold TensorFlow's."""
    inner = getattr(variable, "value", variable)
    if callable(inner):  # it is TensorFlow's
        inner = variable
    return inner.ref() if hasattr(inner, "ref") else id(variable)


def weights_of(layers: Any) -> List[Any]:
    """The variables that are trained of a layer or of a list of them; None has none."""
    several = layers if isinstance(layers, (list, tuple)) else [layers] if layers is not None else []
    return [variable for layer in several for variable in layer.trainable_weights]


def _label(variable: Any) -> str:
    name = str(getattr(variable, "path", None) or getattr(variable, "name", "") or "")
    return re.sub(r":\d+$", "", name)


def _wire_names(prefix: str, variables: Sequence[Any]) -> List[str]:
    """Equal on all ranks: made of the place in the program and the position. Of a variable's own name only
    the layer and the variable are taken, without what a framework has counted: ranks may have made different
    numbers of models before, and one of them may have loaded its model from a file."""
    place = _ops.call_site(prefix)
    labels = ["/".join(re.sub(r"_\d+(?=/|:|$)", "", _label(v)).split("/")[-2:]) for v in variables]
    return [f"{place}.{i}.{label}".encode()[:MAX_NAME].decode(errors="ignore") for i, label in enumerate(labels)]


def scale(gradient: Any, factor: float) -> Any:
    """A gradient times a number; sparse ones stay sparse."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(scale(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


class AdasumOfUpdates:
    """The values before a step, and the step's change, combined; see ``rueda.torch._adasum``."""

    def __init__(self, variables: Sequence[Any], combiner: Combiner) -> None:
        self._variables = [v for v in variables if combiner.is_shared(v)]
        self._combiner = combiner
        done = combiner.check_beginning(self._variables, _ops.call_site("beginning"))
        with tf.control_dependencies([] if done is None else [done]):
            # the step may write into the memory that a variable's value is read from
            self._before = [tf.raw_ops.DeepCopy(x=tf.convert_to_tensor(v)) for v in self._variables]

    @_ops.as_it_is
    def finish(self) -> List[Any]:
        """After the local step: every variable becomes its old value plus the combined change."""
        changes = [tf.convert_to_tensor(v) - old for v, old in zip(self._variables, self._before)]
        combined = self._combiner.combine(changes, self._variables, "update")
        return [v.assign(old + new) for v, old, new in zip(self._variables, self._before, combined)]


def adasum_step(variables: Sequence[Any], combiner: Combiner, step: Callable[[], Any]) -> Any:
    """An optimizer's step on this rank, then the Adasum of all ranks' changes; in a graph the operation that does
    both."""
    updates = AdasumOfUpdates(variables, combiner)
    with tf.control_dependencies(updates._before):
        done = step()
    with tf.control_dependencies([done] if done is not None else []):
        return tf.group(*updates.finish())
