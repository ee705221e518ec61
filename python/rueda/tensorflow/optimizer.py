"""``DistributedOptimizer`` for optimizers of version 1 and of Keras."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import tensorflow as tf

from .._basics import Adasum, Average
from .._process_sets import ProcessSet, global_process_set
from ._gradients import AdasumOfUpdates, Combiner, combining
from ._keras2 import is_keras_2
from ._keras2 import wrap as wrap_keras_2
from .compression import Compression


class LegacyMixin:
    """What a DistributedOptimizer adds to an optimizer of version 1 (``tf.compat.v1.train``)."""

    _rueda_combiner: Combiner
    _rueda_passes: int
    _rueda_average_passes: bool

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """The optimizer's gradients, combined over all ranks; with Adasum they stay the rank's own, and
        ``apply_gradients`` combines the updates."""
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        if self._rueda_combiner.op == Adasum or self._rueda_passes > 1:
            return pairs
        return self._combine(pairs)

    def _combine(self, pairs: List[Tuple[Any, Any]]) -> List[Tuple[Any, Any]]:
        variables = [v for _, v in pairs]
        return list(zip(self._rueda_combiner.combine([g for g, _ in pairs], variables), variables))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step. With ``backward_passes_per_step`` it happens, and communicates, in every
        so manieth call only."""
        pairs = list(grads_and_vars)
        if self._rueda_passes == 1:
            return self._update(pairs, args, kwargs)
        return self._accumulate(pairs, args, kwargs)

    def _update(self, pairs: List[Tuple[Any, Any]], args: Any, kwargs: Any) -> Any:
        apply = super().apply_gradients  # type: ignore[misc]
        if self._rueda_combiner.op != Adasum:
            return apply(pairs, *args, **kwargs)
        updates = AdasumOfUpdates([v for g, v in pairs if g is not None], self._rueda_combiner)
        with tf.control_dependencies(updates._before):
            step = apply(pairs, *args, **kwargs)
        with tf.control_dependencies([step] if step is not None else []):
            return tf.group(*updates.finish())

    def _accumulate(self, pairs: List[Tuple[Any, Any]], args: Any, kwargs: Any) -> Any:
        """Sums gradients in variables of its own; the step is in the branch that is due."""
        pairs = [(tf.convert_to_tensor(g), v) for g, v in pairs if g is not None]
        sums, counter = self._accumulators(pairs)
        added = [total.assign_add(g) for total, (g, _) in zip(sums, pairs)]
        with tf.control_dependencies(added):
            count = counter.assign_add(1)

        def due() -> Any:
            factor = 1.0 / self._rueda_passes if self._rueda_average_passes else 1.0
            whole = [(total.read_value() * factor, v) for total, (_, v) in zip(sums, pairs)]
            if self._rueda_combiner.op != Adasum:
                whole = self._combine(whole)
            step = self._update(whole, args, kwargs)
            with tf.control_dependencies([step] if step is not None else []):
                cleared = [total.assign(tf.zeros_like(total)) for total in sums]
            with tf.control_dependencies(cleared):
                return tf.identity(counter.assign(0))

        with tf.control_dependencies([count]):
            return tf.cond(tf.equal(count, self._rueda_passes), due, lambda: tf.identity(count)).op

    def _accumulators(self, pairs: List[Tuple[Any, Any]]) -> Tuple[List[Any], Any]:
        sums = [
            tf.compat.v1.get_variable(
                f"rueda_sum_{i}", shape=v.shape, dtype=g.dtype, initializer=tf.zeros_initializer(), trainable=False
            )
            for i, (g, v) in enumerate(pairs)
        ]
        counter = tf.compat.v1.get_variable(
            "rueda_passes", shape=[], dtype=tf.int32, initializer=tf.zeros_initializer(), trainable=False
        )
        return sums, counter


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps an optimizer, of version 1 or of Keras, so that its step uses the gradients of all ranks, or,
    with ``op=Adasum``, so that the updates of all ranks are combined."""
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is {backward_passes_per_step}; it must be at least 1")
    combiner = Combiner(
        op,
        gradient_predivide_factor,
        compression,
        sparse_as_dense,
        process_set,
        scale_local_gradients,
        groups,
        num_groups,
    )
    if is_keras_2(optimizer):
        return wrap_keras_2(optimizer, combiner, backward_passes_per_step)
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from ..keras._optimizer import wrap

        return wrap(optimizer, combiner, backward_passes_per_step, average_aggregated_gradients, name)
    wrapped = combining(LegacyMixin, optimizer, combiner)
    wrapped._rueda_passes, wrapped._rueda_average_passes = backward_passes_per_step, average_aggregated_gradients
    return wrapped
