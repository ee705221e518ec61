"""How a list of gradients is combined, whoever asks: tape, optimizer of version 1, or Keras."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import tensorflow as tf

from .._basics import Adasum, Average, Sum
from .._process_sets import ProcessSet, global_process_set
from . import _ops
from .compression import Compression


class Reduction(NamedTuple):
    """How gradients are combined."""

    op: int = Average
    scales: Tuple[float, float] = (1.0, 1.0)
    compression: Any = Compression.none
    sparse_as_dense: bool = False
    process_set: ProcessSet = global_process_set


def make_reduction(
    op: int,
    predivide: float,
    compression: Any,
    sparse_as_dense: bool,
    process_set: ProcessSet,
    groups: Any = None,
    num_groups: int = 0,
) -> Reduction:
    """Checks the keywords that all wrappers have. Groups change nothing here: all gradients of a step are
    started at once and waited for together."""
    if op not in (Average, Sum, Adasum):
        raise ValueError("op must be Average, Sum or Adasum")
    if groups is not None and not (isinstance(groups, list) or (isinstance(groups, int) and groups >= 0)):
        raise ValueError("groups must be a whole number, or a list of lists of variables")
    if num_groups < 0:
        raise ValueError(f"num_groups is {num_groups}; it must be 0 or more")
    scales = (1.0, 1.0)
    if predivide != 1.0:
        if op != Average:
            raise ValueError("gradient_predivide_factor goes with op=Average only")
        op, scales = Sum, (1.0 / predivide, predivide / process_set.size())
    return Reduction(op, scales, compression, sparse_as_dense, process_set)


def variable_key(variable: Any) -> Any:
    """What tells variables apart; Keras' hold TensorFlow's."""
    inner = getattr(variable, "value", variable)
    return inner.ref() if hasattr(inner, "ref") else id(variable)


def _label(variable: Any) -> str:
    return str(getattr(variable, "path", None) or getattr(variable, "name", "") or "")


def combine_gradients(
    gradients: Sequence[Any], variables: Sequence[Any], reduction: Reduction, prefix: str = "gradient"
) -> List[Any]:
    """Combines what is not None. Names follow from the position, so that all ranks have the same."""
    results = list(gradients)
    if reduction.process_set.size() == 1 or not reduction.process_set.included():
        return results
    names = [f"{prefix}.{i}.{_label(v)}"[:200] for i, v in enumerate(variables)]
    dense = []
    for i, gradient in enumerate(results):
        if gradient is None:
            continue
        if isinstance(gradient, tf.IndexedSlices):
            if not reduction.sparse_as_dense and reduction.op != Adasum:
                continue
            results[i] = tf.convert_to_tensor(gradient)
        dense.append(i)
    if dense:
        combined = _ops.grouped_allreduce_named(
            [results[i] for i in dense],
            [f"allreduce.{names[i]}" for i in dense],
            reduction.compression,
            reduction.op,
            reduction.scales,
            reduction.process_set,
        )
        for i, gradient in zip(dense, combined):
            results[i] = gradient
    for i, gradient in enumerate(results):
        if isinstance(gradient, tf.IndexedSlices):
            results[i] = _combine_slices(gradient, names[i], reduction)
    return results


def _combine_slices(gradient: tf.IndexedSlices, name: str, reduction: Reduction) -> tf.IndexedSlices:
    factor = reduction.scales[0] * reduction.scales[1]
    total = _ops.allreduce(gradient, op=reduction.op, name=name, process_set=reduction.process_set)
    if factor == 1.0:
        return total
    return tf.IndexedSlices(total.values * tf.cast(factor, total.values.dtype), total.indices, total.dense_shape)


def scale_local(gradient: Any, reduction: Reduction) -> Any:
    """A gradient of this rank alone, of the size of an averaged one."""
    if gradient is None:
        return None
    ranks = reduction.process_set.size()
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / ranks, gradient.indices, gradient.dense_shape)
    return gradient / ranks


class AdasumOfUpdates:
    """The values before a step, and the step's change, combined; see ``rueda.torch._adasum``."""

    def __init__(self, variables: Sequence[Any], reduction: Reduction) -> None:
        self._variables = list(variables)
        self._reduction = reduction
        self._before = [tf.identity(tf.convert_to_tensor(v)) for v in self._variables]

    def finish(self) -> List[Any]:
        """After the local step: every variable becomes its old value plus the combined change."""
        changes = [tf.convert_to_tensor(v) - old for v, old in zip(self._variables, self._before)]
        combined = combine_gradients(changes, self._variables, self._reduction, "update")
        return [v.assign(old + new) for v, old, new in zip(self._variables, self._before, combined)]
