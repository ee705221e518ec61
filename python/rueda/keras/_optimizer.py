"""Keras' optimizers with gradients (or, for Adasum, updates) combined over all ranks.

An optimizer asks for its gradients to be clipped exactly when it is about to use them: after its own
gradient accumulation, before its update. That is where gradients are combined. An optimizer that scales
the loss decides by its gradients whether to step at all: there they are combined before it looks, so that
all ranks decide alike.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import keras

from .._basics import Adasum
from ..tensorflow._gradients import (
    AdasumOfUpdates,
    Reduction,
    combine_gradients,
    scale_local,
    variable_key,
)

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        f"rueda.keras works with Keras on TensorFlow; here KERAS_BACKEND is {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=tensorflow, or use rueda.torch with a training loop of your own."
    )


class KerasMixin:
    """What a DistributedOptimizer adds to the user's optimizer class."""

    def _set_up(self, reduction: Reduction, scale_local_gradients: bool) -> None:
        self._rueda_reduction = reduction
        self._rueda_local: set = set()
        self._rueda_scales_local = scale_local_gradients

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_local.add(variable_key(variable))

    def _rueda_combine(self, gradients: List[Any], variables: List[Any]) -> List[Any]:
        results = list(gradients)
        shared = [i for i, v in enumerate(variables) if variable_key(v) not in self._rueda_local]
        combined = combine_gradients(
            [results[i] for i in shared], [variables[i] for i in shared], self._rueda_reduction
        )
        for i, gradient in zip(shared, combined):
            results[i] = gradient
        for i in set(range(len(results))) - set(shared) if self._rueda_scales_local else ():
            results[i] = scale_local(results[i], self._rueda_reduction)
        return results

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """The optimizer's step on the gradients of all ranks."""
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        if self._rueda_reduction.op == Adasum:
            return self._apply_and_combine(grads, variables, trainable_variables)
        if isinstance(self, keras.optimizers.LossScaleOptimizer):
            grads = self._rueda_combine(list(grads), variables)
        used = [v for g, v in zip(grads, variables) if g is not None]
        object.__setattr__(self, "_rueda_variables", used)  # Keras would save them with the optimizer
        return super().apply(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: List[Any]) -> List[Any]:
        combines = self._rueda_reduction.op != Adasum
        if combines and not isinstance(self, keras.optimizers.LossScaleOptimizer):
            grads = self._rueda_combine(list(grads), self._rueda_variables)
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _apply_and_combine(self, grads: Any, variables: List[Any], given: Any) -> Any:
        shared = [v for v in variables if variable_key(v) not in self._rueda_local]
        updates = AdasumOfUpdates(shared, self._rueda_reduction)
        result = super().apply(grads, given)  # type: ignore[misc]
        updates.finish()
        return result


def _with_accumulation(optimizer: Any, passes: int) -> Any:
    """Keras' own accumulation, which divides by the number of passes."""
    if passes == 1:
        return optimizer
    config: Dict[str, Any] = dict(optimizer.get_config())
    if config.get("gradient_accumulation_steps"):
        raise ValueError("backward_passes_per_step and gradient_accumulation_steps are the same thing: give one")
    config["gradient_accumulation_steps"] = passes
    return type(optimizer).from_config(config)


def _needs_loss_scale(optimizer: Any) -> bool:
    policy = keras.mixed_precision.dtype_policy()
    return policy.name == "mixed_float16" and not isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def distributed_class(kind: type) -> type:
    """The subclass of an optimizer's class that combines; it keeps name and module, so that what is saved
    can be loaded without us."""
    return type(kind.__name__, (KerasMixin, kind), {"__module__": kind.__module__})


def wrap(
    optimizer: Any,
    reduction: Reduction,
    passes: int = 1,
    average_passes: bool = False,
    scale_local_gradients: bool = True,
    name: Optional[str] = None,
) -> Any:
    """An optimizer of the same class and settings that combines over all ranks."""
    optimizer = keras.optimizers.get(optimizer)
    optimizer = _with_accumulation(optimizer, passes)
    if not average_passes and reduction.op != Adasum:  # passes add up: undo Keras' division
        reduction = reduction._replace(scales=(reduction.scales[0], reduction.scales[1] * passes))
    if _needs_loss_scale(optimizer):
        # Keras would scale the loss outside of us, and a rank that skips a step would leave the others alone
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    config = optimizer.get_config()
    if name is not None:
        config["name"] = name
    wrapped = distributed_class(type(optimizer)).from_config(config)
    wrapped._set_up(reduction, scale_local_gradients)
    if getattr(optimizer, "built", False):
        wrapped.build(optimizer._trainable_variables)
        for ours, theirs in zip(wrapped.variables, optimizer.variables):
            ours.assign(theirs)
    return wrapped
