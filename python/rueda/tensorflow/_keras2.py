"""Optimizers of Keras 2, also its older ones (``optimizers.legacy``): both ask for gradients to be summed over
devices just before they are clipped and used, and optimizers that scale the loss ask the one inside of
them before they decide. That is where gradients are combined."""

from __future__ import annotations

from typing import Any, List, Tuple

from .._basics import Adasum
from ._gradients import Combiner, combining


class Keras2Mixin:
    """What a DistributedOptimizer adds to the user's optimizer class."""

    _rueda_combiner: Combiner

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)

    def aggregate_gradients(self, grads_and_vars: Any) -> List[Tuple[Any, Any]]:
        return self._rueda_combine(super().aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _aggregate_gradients(self, grads_and_vars: Any) -> List[Tuple[Any, Any]]:
        return self._rueda_combine(super()._aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _rueda_combine(self, pairs: Any) -> List[Tuple[Any, Any]]:
        gradients, variables = zip(*pairs)
        return list(zip(self._rueda_combiner.combine(gradients, variables), variables))


def is_keras_2(optimizer: Any) -> bool:
    """Whether it is an optimizer of Keras 2; needs no Keras to be there."""
    return hasattr(optimizer, "aggregate_gradients") or hasattr(optimizer, "_aggregate_gradients")


def wrap(optimizer: Any, combiner: Combiner, passes: int) -> Any:
    """The optimizer with its state, of a class that combines over all ranks."""
    if combiner.op == Adasum or passes > 1:
        raise ValueError("op=Adasum and backward_passes_per_step need Keras 3: unset TF_USE_LEGACY_KERAS")
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is not None:  # it scales the loss, and asks the one inside to combine
        optimizer._optimizer = wrap(inner, combiner, passes)
        return optimizer
    return combining(Keras2Mixin, optimizer, combiner)
