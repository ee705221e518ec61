"""``DistributedOptimizer`` for optimizers of version 1 and of Keras."""

from __future__ import annotations

from typing import Any, Optional, TypeVar, cast

import tensorflow as tf

from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Adasum, Average
from ._gradients import Combiner, adasum_step, combining
from ._keras2 import is_keras_2
from ._keras2 import wrap as wrap_keras_2
from ._passes import Pairs, Sums, accumulate, dense_pairs
from .compression import Compression

Optimizer = TypeVar("Optimizer")


class LegacyMixin:
    """What a DistributedOptimizer adds to an optimizer of version 1 (``tf.compat.v1.train``)."""

    _rueda_combiner: Combiner
    _rueda_passes: int
    _rueda_average_passes: bool

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Pairs:
        """The optimizer's gradients, combined over all ranks; with Adasum they stay the rank's own, and
        ``apply_gradients`` combines the updates."""
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        if self._rueda_combiner.op == Adasum or self._rueda_passes > 1:
            return pairs
        return self._combine(pairs)

    def _combine(self, pairs: Pairs) -> Pairs:
        variables = [v for _, v in pairs]
        return list(zip(self._rueda_combiner.combine([g for g, _ in pairs], variables), variables))

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step. With ``backward_passes_per_step`` it happens, and communicates, in every
        so manieth call only."""
        if self._rueda_passes == 1:
            return self._update(list(grads_and_vars), args, kwargs)
        return self._accumulate(dense_pairs(grads_and_vars), args, kwargs)

    def _update(self, pairs: Pairs, args: Any, kwargs: Any) -> Any:
        apply = super().apply_gradients  # type: ignore[misc]
        if self._rueda_combiner.op != Adasum:
            return apply(pairs, *args, **kwargs)
        variables = [v for g, v in pairs if g is not None]
        return adasum_step(variables, self._rueda_combiner, lambda: apply(pairs, *args, **kwargs))

    def _accumulate(self, pairs: Pairs, args: Any, kwargs: Any) -> Any:
        def step(whole: Pairs) -> Any:
            return self._update(whole if self._rueda_combiner.op == Adasum else self._combine(whole), args, kwargs)

        sums = self._accumulators(pairs)
        return accumulate(pairs, sums, self._rueda_passes, self._rueda_average_passes, step).op

    def _accumulators(self, pairs: Pairs) -> Sums:
        totals = [
            tf.compat.v1.get_variable(
                f"rueda_sum_{i}", shape=v.shape, dtype=g.dtype, initializer=tf.zeros_initializer(), trainable=False
            )
            for i, (g, v) in enumerate(pairs)
        ]
        counter = tf.compat.v1.get_variable(
            "rueda_passes", shape=[], dtype=tf.int32, initializer=tf.zeros_initializer(), trainable=False
        )
        return Sums(totals, counter)


def DistributedOptimizer(
    optimizer: Optimizer,
    name: Optional[str] = None,
    *,
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Optimizer:
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
    )
    if is_keras_2(optimizer):
        passes, averages = backward_passes_per_step, average_aggregated_gradients
        return cast(Optimizer, wrap_keras_2(optimizer, combiner, passes, averages))
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from ..keras._optimizer import wrap

        return cast(
            Optimizer, wrap(optimizer, combiner, backward_passes_per_step, average_aggregated_gradients, name)
        )
    more = {"_rueda_passes": backward_passes_per_step, "_rueda_average_passes": average_aggregated_gradients}
    return cast(Optimizer, combining(LegacyMixin, optimizer, combiner, **more))
