"""Batch normalisation over the batches of all ranks, as a layer of Keras.

It is the only module here that needs Keras, and is imported when its name is first used.
"""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Sum
from ..keras._which import IS_2, keras
from . import _ops


@keras.saving.register_keras_serializable(package="rueda")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    """``keras.layers.BatchNormalization`` whose mean and variance, while training, are those of all ranks
    together, whatever the sizes of their batches. Masks, ``axis``, renormalisation and the rest are Keras'
    own; sums are taken in float32 or wider. Inference is the base's and communicates nothing.

    A layer that is loaded does not remember its process set: it comes back with all ranks."""

    def __init__(self, *args: Any, process_set: ProcessSet = global_process_set, **kwargs: Any) -> None:
        kwargs.pop("fused", None)  # of Horovod's layer
        super().__init__(*args, **kwargs)
        self.process_set = process_set
        self.supports_jit = False  # of Keras 3
        self.fused = False  # of Keras 2, whose fast operation knows one batch only

    if IS_2:

        def _calculate_mean_and_var(
            self, inputs: Any, reduction_axes: Any, keep_dims: bool, mask: Any = None
        ) -> Tuple[Any, Any]:
            if self.process_set.size() == 1:
                return super()._calculate_mean_and_var(inputs, reduction_axes, keep_dims, mask)
            both = _moments_of_all(inputs, mask, reduction_axes, 0.0, self.process_set)
            return both if keep_dims else tuple(tf.squeeze(each, reduction_axes) for each in both)

    else:

        def _moments(self, inputs: Any, mask: Any) -> Tuple[Any, Any]:
            if self.process_set.size() == 1:
                return super()._moments(inputs, mask)
            more = 0.0 if mask is None else keras.config.epsilon()  # as Keras does
            both = _moments_of_all(inputs, mask, self._reduction_axes, more, self.process_set)
            return tuple(tf.squeeze(each, self._reduction_axes) for each in both)


def _moments_of_all(inputs: Any, mask: Any, axes: Any, more: float, process_set: ProcessSet) -> Tuple[Any, Any]:
    """Mean and variance over some axes, which stay as axes of length 1, and over all ranks. ``more`` is added to
    the number of values."""
    kept = None
    if mask is not None:
        kept = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))

    def sum_up(values: Any, of: Any = tf.identity) -> Any:
        """What is masked may be anything, also not a number: neither it nor its gradient counts."""
        values = values if kept is None else tf.where(kept, values, tf.zeros_like(values))
        return tf.reduce_sum(of(values), axes, keepdims=True)

    # two sums instead of a sum of squares: nothing cancels
    sums = tf.stack([sum_up(inputs), sum_up(tf.ones_like(inputs))])
    total, count = tf.unstack(_ops.allreduce(sums, op=Sum, process_set=process_set))
    count = tf.stop_gradient(count) + more
    mean = tf.math.divide_no_nan(total, count)
    squares = _ops.allreduce(sum_up(inputs - mean, tf.square), op=Sum, process_set=process_set)
    return mean, tf.math.divide_no_nan(squares, count)
