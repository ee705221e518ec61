"""Batch normalisation over the batches of all ranks, as a layer of Keras.

It is the only module here that needs Keras, and is imported when its name is first used.
"""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from .._basics import Sum
from .._process_sets import ProcessSet, global_process_set
from ..keras._which import IS_2, keras
from . import _ops

if IS_2:
    raise ImportError("SyncBatchNormalization needs Keras 3; here tf.keras is Keras 2")


@keras.saving.register_keras_serializable(package="rueda")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    """``keras.layers.BatchNormalization`` whose mean and variance, while training, are those of all ranks
    together, whatever the sizes of their batches. Masks, ``axis``, renormalisation and the rest are Keras'
    own; sums are taken in float32 or wider. Inference is the base's and communicates nothing.

    A layer that is loaded does not remember its process set: it comes back with all ranks."""

    def __init__(self, *args: Any, process_set: ProcessSet = global_process_set, **kwargs: Any) -> None:
        kwargs.pop("fused", None)  # of Horovod's layer, for Keras 2
        super().__init__(*args, **kwargs)
        self.process_set = process_set
        self.supports_jit = False

    def _moments(self, inputs: Any, mask: Any) -> Tuple[Any, Any]:
        if self.process_set.size() == 1:
            return super()._moments(inputs, mask)
        kept = None
        if mask is not None:
            kept = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))
        # two sums instead of a sum of squares: nothing cancels
        sums = self._all_ranks(tf.concat([self._sum(inputs, kept), self._count(inputs, kept)], 0))
        total, count = tf.split(sums, 2)
        count = tf.stop_gradient(count)
        if mask is not None:
            count += keras.config.epsilon()  # as Keras does
        mean = total / count
        centred = inputs - tf.reshape(
            mean, [1 if i in self._reduction_axes else -1 for i in range(len(inputs.shape))]
        )
        return mean, self._all_ranks(self._sum(centred, kept, tf.square)) / count

    def _all_ranks(self, sums: Any) -> Any:
        return _ops.allreduce(sums, op=Sum, process_set=self.process_set)

    def _sum(self, values: Any, kept: Any, of: Any = tf.identity) -> Any:
        """What is masked may be anything, also not a number: neither it nor its gradient counts."""
        if kept is not None:
            values = tf.where(kept, values, tf.zeros_like(values))
        return tf.reduce_sum(of(values), self._reduction_axes)

    def _count(self, inputs: Any, kept: Any) -> Any:
        """How many values each channel has here."""
        return tf.reduce_sum(
            tf.ones_like(inputs) if kept is None else tf.cast(kept, inputs.dtype), self._reduction_axes
        )
