"""Optimizers of Keras 3 with gradients (or, for Adasum, updates) combined over all ranks.

An optimizer asks for its gradients to be clipped exactly when it is about to use them: after its own
gradient accumulation, before its update. That is where gradients are combined; updates are combined after
it. An optimizer that scales the loss decides by its gradients whether to step at all: there the ranks agree
on the decision, and the optimizer inside of it combines. It may be the user's or Keras' own, around ours,
so the decision is changed in Keras' class.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

import keras

from .._reduce_op import Adasum
from ..tensorflow._gradients import AdasumOfUpdates, Combiner, scale

OLDEST = (3, 5)  # before, Keras clipped gradients and accumulated them then

if tuple(int(part) for part in keras.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(
        f"rueda's optimizers need Keras 3.5 or newer, not {keras.__version__}: pip install -U keras"
    )


class KerasMixin:
    """What a DistributedOptimizer adds to the user's optimizer class."""

    _rueda_combiner: Combiner
    _rueda_variables: List[Any]  # of the gradients that are about to be used
    _rueda_factor = 1.0  # of accumulated gradients, which Keras has divided by their number

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)

    def _backend_apply_gradients(self, grads: List[Any], trainable_variables: List[Any]) -> None:
        # as an attribute that Keras does not see: it would save the variables with the optimizer
        object.__setattr__(self, "_rueda_variables", list(trainable_variables))
        super()._backend_apply_gradients(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: List[Any]) -> List[Any]:
        if self._rueda_factor != 1.0:
            grads = [scale(gradient, self._rueda_factor) for gradient in grads]
        if self._rueda_combiner.op != Adasum:
            grads = self._rueda_combiner.combine(grads, self._rueda_variables)
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _backend_update_step(
        self, grads: List[Any], trainable_variables: List[Any], learning_rate: Any
    ) -> None:
        step = super()._backend_update_step  # type: ignore[misc]
        if self._rueda_combiner.op != Adasum:
            return step(grads, trainable_variables, learning_rate)
        updates = AdasumOfUpdates(trainable_variables, self._rueda_combiner)
        step(grads, trainable_variables, learning_rate)
        updates.finish()


class LossScaleMixin:
    """What it adds to a ``LossScaleOptimizer``. The optimizer inside is a distributed one."""

    _rueda_combiner: Combiner
    _rueda_inner: Any  # the class of the optimizer inside

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> Any:
        """Keras would make the optimizer inside one of the user's class."""
        inner = keras.optimizers.LossScaleOptimizer.from_config(dict(config)).inner_optimizer
        return cls(cls._rueda_inner.from_config(inner.get_config()), **_without_inner(config))  # type: ignore[call-arg]

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays the rank's own."""
        self._rueda_combiner.keep_local(variable)


def is_distributed(optimizer: Any) -> bool:
    """Whether it is ours, or scales the loss around one of ours."""
    return isinstance(getattr(optimizer, "inner_optimizer", optimizer), KerasMixin)


def _agreeing(check_finite: Callable[..., Any]) -> Callable[..., Any]:
    """A rank that skips a step alone would leave the others waiting."""

    @functools.wraps(check_finite)
    def check(self: Any, grads: List[Any]) -> Any:
        finite, inner = check_finite(self, grads), self.inner_optimizer
        return inner._rueda_combiner.agree(finite) if isinstance(inner, KerasMixin) else finite

    return check


def _without_jit(resolve: Callable[..., bool]) -> Callable[..., bool]:
    """``jit_compile="auto"`` is no for a model that communicates: XLA has no such operations."""

    @functools.wraps(resolve)
    def resolved(self: Any) -> bool:
        return not is_distributed(getattr(self, "optimizer", None)) and resolve(self)

    return resolved


def _change(kind: Any, method: str, change: Callable[..., Any]) -> None:
    if hasattr(kind, method):
        setattr(kind, method, change(getattr(kind, method)))


_change(keras.optimizers.LossScaleOptimizer, "check_finite", _agreeing)
_change(keras.Model, "_resolve_auto_jit_compile", _without_jit)


def _distributed_class(mixin: type, kind: type, **members: Any) -> Any:
    """The subclass of an optimizer's class that combines; it keeps name and module, so that what is saved
    can be loaded without us. How it combines belongs to the class: ``from_config`` gives another such one."""
    return type(kind.__name__, (mixin, kind), {"__module__": kind.__module__, **members})


def wrap(
    optimizer: Any,
    combiner: Combiner,
    passes: int = 1,
    average_passes: bool = False,
    name: Optional[str] = None,
) -> Any:
    """An optimizer of the same class, settings and state that combines over all ranks."""
    optimizer = keras.optimizers.get(optimizer)
    if is_distributed(optimizer):
        raise ValueError("this optimizer is distributed already: wrap it once")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        wrapped = _wrap_loss_scale(optimizer, combiner, passes, average_passes, name)
    else:
        wrapped = _wrap_plain(optimizer, combiner, passes, average_passes, name)
    if optimizer.built:
        _take_state(wrapped, optimizer)
    return wrapped


def _wrap_plain(
    optimizer: Any, combiner: Combiner, passes: int, average_passes: bool, name: Optional[str]
) -> Any:
    config = dict(optimizer.get_config())
    if passes > 1:
        if config.get("gradient_accumulation_steps"):
            raise ValueError(
                "backward_passes_per_step and gradient_accumulation_steps are the same thing: give one"
            )
        config["gradient_accumulation_steps"] = passes
    if name is not None:
        config["name"] = name
    if callable(optimizer._learning_rate):  # a schedule: the object itself, which Keras may not know by name
        config["learning_rate"] = optimizer._learning_rate
    factor = 1.0 if average_passes else float(passes)
    kind = _distributed_class(KerasMixin, type(optimizer), _rueda_combiner=combiner, _rueda_factor=factor)
    return kind.from_config(config)


def _wrap_loss_scale(
    optimizer: Any, combiner: Combiner, passes: int, average_passes: bool, name: Optional[str]
) -> Any:
    inner = _wrap_plain(optimizer.inner_optimizer, combiner, passes, average_passes, None)
    kind = _distributed_class(
        LossScaleMixin, type(optimizer), _rueda_combiner=combiner, _rueda_inner=type(inner)
    )
    return kind(inner, **{**_without_inner(optimizer.get_config()), "name": name or optimizer.name})


def _without_inner(config: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in config.items() if key != "inner_optimizer"}


def _take_state(wrapped: Any, optimizer: Any) -> None:
    """What the optimizer remembers, by the variables' names, because only one of the two may accumulate
    gradients, and by their order, because names may be equal."""
    wrapped.build(optimizer._trainable_variables)
    while wrapped is not None:
        theirs: Dict[str, List[Any]] = {}
        for variable in optimizer._variables:
            theirs.setdefault(variable.name, []).append(variable)
        for variable in wrapped._variables:
            if theirs.get(variable.name):
                variable.assign(theirs[variable.name].pop(0))
        wrapped, optimizer = (getattr(each, "inner_optimizer", None) for each in (wrapped, optimizer))
