"""``DistributedGradientTape``: a tape whose gradients are those of all ranks."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from .._basics import Average
from .._process_sets import ProcessSet, global_process_set
from ._gradients import Combiner, combining, weights_of
from .compression import Compression


class TapeMixin:
    """What a DistributedGradientTape adds to the user's tape."""

    _rueda_combiner: Combiner

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(source)

    def gradient(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """The tape's gradient, combined over all ranks; the keywords are the tape's."""
        gradients = super().gradient(target, sources, *args, **kwargs)  # type: ignore[misc]
        flat = tf.nest.flatten(gradients, expand_composites=False)
        combined = self._rueda_combiner.combine(flat, tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, combined)


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Wraps a tape so that ``gradient()`` gives what all ranks have computed together: their average, sum
    or Adasum. ``register_local_source`` keeps a variable out of it."""
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
    return combining(TapeMixin, gradtape, combiner)


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Optional[Any] = None,
    scale_local_gradients: bool = True,
) -> Any:
    """The same for a model with layers that every rank has for itself: their gradients stay local."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in weights_of(local_layers):
        tape.register_local_source(variable)
    return tape
