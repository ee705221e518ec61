"""``DistributedGradientTape``: a tape whose gradients are those of all ranks."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, TypeVar, cast

import tensorflow as tf

from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Average
from ._gradients import Combiner, combining, weights_of
from .compression import Compression

Tape = TypeVar("Tape")


class TapeMixin:
    """What a DistributedGradientTape adds to the user's tape."""

    _rueda_combiner: Combiner

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(source)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, **kwargs: Any) -> Any:
        """The tape's gradient, combined over all ranks; other keywords are the tape's."""
        gradients = super().gradient(target, sources, output_gradients, **kwargs)  # type: ignore[misc]
        flat = tf.nest.flatten(gradients, expand_composites=False)
        combined = self._rueda_combiner.combine(flat, tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, combined)

    def get_local_and_global_gradients(self, target: Any, sources: Any, **kwargs: Any) -> Tuple[List[Any], List[Any]]:
        """The same in two lists: gradients of the sources that stay local, and those of the others, combined;
        each in the order of ``sources``."""
        gradients = tf.nest.flatten(self.gradient(target, sources, **kwargs), expand_composites=False)
        local: List[Any] = []
        combined: List[Any] = []
        for gradient, source in zip(gradients, tf.nest.flatten(sources)):
            (combined if self._rueda_combiner.is_shared(source) else local).append(gradient)
        return local, combined


def DistributedGradientTape(
    gradtape: Tape,
    *,
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Tape:
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
    )
    return cast(Tape, combining(TapeMixin, gradtape, combiner))


def PartialDistributedGradientTape(gradtape: Tape, *, local_layers: Optional[Any] = None, **options: Any) -> Tape:
    """The same for a model with layers, one or a list, that every rank has for itself: their gradients stay
    local."""
    tape: Any = DistributedGradientTape(gradtape, **options)
    for variable in weights_of(local_layers):
        tape.register_local_source(variable)
    return cast(Tape, tape)
