"""Optimizers of Keras 2, also its older ones (``optimizers.legacy``): both ask for gradients to be summed over
devices just before they are clipped and used, and optimizers that scale the loss ask the one inside of
them before they decide. That is where gradients are combined.

Adasum combines updates, and gradients of several passes are combined when they are all there: then what is asked
before a step is only whether all ranks can make it."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional, Tuple

import tensorflow as tf

from .._reduce_op import Adasum
from ._gradients import Combiner, adasum_step, combining
from ._passes import Pairs, Sums, accumulate, dense_pairs


class Keras2Mixin:
    """What a DistributedOptimizer adds to the user's optimizer class."""

    _rueda_combiner: Combiner
    _rueda_passes: int
    _rueda_average_passes: bool
    _rueda_sums: Optional[Sums] = None
    _rueda_is_stepping = False
    _rueda_counts_batches = False

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)

    # ---- Where gradients are combined

    def aggregate_gradients(self, grads_and_vars: Any) -> List[Tuple[Any, Any]]:
        return self._rueda_aggregate(super().aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _aggregate_gradients(self, grads_and_vars: Any) -> List[Tuple[Any, Any]]:
        return self._rueda_aggregate(super()._aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _rueda_aggregate(self, pairs: Any) -> Pairs:
        if not self._rueda_is_late():
            return self._rueda_combine(list(pairs))
        return list(pairs) if self._rueda_is_stepping else self._rueda_agree(list(pairs))

    def _rueda_is_late(self) -> bool:
        """Whether gradients stay the rank's own until the step."""
        return self._rueda_passes > 1 or self._rueda_combiner.op == Adasum

    def _rueda_combine(self, pairs: Pairs) -> Pairs:
        gradients, variables = zip(*pairs)
        return list(zip(self._rueda_combiner.combine(gradients, variables), variables))

    def _rueda_agree(self, pairs: Pairs) -> Pairs:
        """Who asks scales the loss, and skips a step with a gradient that is not finite: all ranks, or none."""
        values = [getattr(g, "values", g) for g, _ in pairs if g is not None]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in values])
        agreed = self._rueda_combiner.agree(finite)

        def mark(gradient: Any) -> Any:
            dense = tf.convert_to_tensor(gradient)
            return tf.where(agreed, dense, tf.constant(float("nan"), dense.dtype))

        return [(g if g is None else mark(g), v) for g, v in pairs]

    # ---- The step

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step. With ``backward_passes_per_step`` it happens, and communicates, in every
        so manieth call only."""
        if not self._rueda_is_late():
            return super().apply_gradients(grads_and_vars, *args, **kwargs)  # type: ignore[misc]
        done = self._rueda_apply_late(grads_and_vars, args, kwargs)
        is_older = hasattr(super(), "_decayed_lr")
        return tf.group(done) if is_older else self.iterations  # as they do

    def _rueda_apply_late(self, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        if self._rueda_passes == 1:
            return self._rueda_step([(g, v) for g, v in grads_and_vars if g is not None], args, kwargs)
        pairs = dense_pairs(grads_and_vars)
        return accumulate(
            pairs,
            self._rueda_make_sums(pairs),
            self._rueda_passes,
            self._rueda_average_passes,
            lambda whole: self._rueda_step(whole, args, kwargs),
        )

    def _rueda_step(self, pairs: Pairs, args: Any, kwargs: Any) -> Any:
        apply = super().apply_gradients  # type: ignore[misc]
        if self._rueda_combiner.op != Adasum:
            pairs = self._rueda_combine(pairs)
        with self._rueda_set("_rueda_is_stepping"):
            if self._rueda_combiner.op != Adasum:
                return apply(pairs, *args, **kwargs)
            return adasum_step([v for _, v in pairs], self._rueda_combiner, lambda: apply(pairs, *args, **kwargs))

    def _rueda_make_sums(self, pairs: Pairs) -> Sums:
        """As attributes that Keras does not see: it would save the variables with the optimizer."""
        if self._rueda_sums is None:
            with tf.init_scope():
                totals = [tf.Variable(tf.zeros(v.shape, g.dtype), trainable=False) for g, v in pairs]
                object.__setattr__(self, "_rueda_sums", Sums(totals, tf.Variable(0, trainable=False)))
        assert self._rueda_sums is not None
        return self._rueda_sums

    @contextlib.contextmanager
    def _rueda_set(self, flag: str) -> Iterator[None]:
        object.__setattr__(self, flag, True)
        try:
            yield
        finally:
            object.__setattr__(self, flag, False)

    # ---- Steps are counted as they are made, but the schedules of learning rates are written for batches

    @property
    def iterations(self) -> Any:
        """The number of steps that were made."""
        made = super().iterations  # type: ignore[misc]
        if not self._rueda_counts_batches:
            return made
        return made * self._rueda_passes + (self._rueda_passes - 1)

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        super(Keras2Mixin, type(self)).iterations.fset(self, variable)  # type: ignore[misc]

    def _compute_current_learning_rate(self) -> Any:
        with self._rueda_set("_rueda_counts_batches"):
            return super()._compute_current_learning_rate()  # type: ignore[misc]

    def _decayed_lr(self, var_dtype: Any) -> Any:
        with self._rueda_set("_rueda_counts_batches"):
            return super()._decayed_lr(var_dtype)  # type: ignore[misc]


def is_keras_2(optimizer: Any) -> bool:
    """Whether it is an optimizer of Keras 2; needs no Keras to be there."""
    return hasattr(optimizer, "aggregate_gradients") or hasattr(optimizer, "_aggregate_gradients")


def wrap(optimizer: Any, combiner: Combiner, passes: int, average_passes: bool) -> Any:
    """The optimizer with its state, of a class that combines over all ranks."""
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is not None:  # it scales the loss, and asks the one inside to combine
        optimizer._optimizer = wrap(inner, combiner, passes, average_passes)
        return optimizer
    return combining(Keras2Mixin, optimizer, combiner, _rueda_passes=passes, _rueda_average_passes=average_passes)
