"""What Keras' ``fit`` calls: start values, averaged metrics, learning rates."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Union

import numpy as np
import tensorflow as tf

from .._basics import rank, size
from .._process_sets import ProcessSet, global_process_set
from ..tensorflow._gradients import variable_key
from ..tensorflow._keras_state import shared_state
from ..tensorflow.functions import allgather_object, broadcast_variables
from ._build import build_for, build_optimizer, is_built
from ._which import keras

SAME_RATE = 1e-6  # relative; a learning rate is kept as float32


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Gives every rank the weights and the optimizer's state of ``root_rank`` before the first step, so that
    all begin alike. ``local_variables`` stay each rank's own.

    A model that has no variables before its first batch gets them from the shapes of the batch. What can only
    be made by the first step itself is sent after it."""

    def __init__(
        self,
        root_rank: int,
        *,
        local_variables: Optional[Sequence[Any]] = None,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__()
        self.root_rank, self.process_set = root_rank, process_set
        self._sent: Set[int] = set()  # by id
        self._is_first = False
        self._local: Set[Any] = {variable_key(variable) for variable in local_variables or []}

    def register_local_var(self, variable: Any) -> None:
        """This variable stays the rank's own."""
        self._local.add(variable_key(variable))

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._sent.clear()
        self._is_first = self.process_set.included()
        if not self._is_first:
            return
        if is_built(self.model):
            self._send()
        else:
            self._send_before_the_first_step()

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if self._is_first:
            self._send()
            self._is_first = False

    def _send_before_the_first_step(self) -> None:
        """Keras hands the data to the function that makes the step: only there its shapes are known."""
        step = self.model.train_function

        def first(iterator: Any) -> Any:
            self.model.train_function = step
            if build_for(self.model, iterator):
                self._send()
            return step(iterator)

        self.model.train_function = first

    def _send(self) -> None:
        """All that is there and was not sent yet."""
        build_optimizer(self.model)
        variables = [
            variable
            for variable in shared_state(self.model, getattr(self.model, "optimizer", None))
            if variable_key(variable) not in self._local and id(variable) not in self._sent
        ]
        broadcast_variables(variables, self.root_rank, self.process_set)
        self._sent.update(map(id, variables))


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages the metrics of an epoch over all ranks, so that others (checkpoints, schedules, logs) see the
    same numbers everywhere; put it before them. All ranks must have the same number of batches in an epoch:
    where Keras knows it, others are refused at once instead of waiting for ever. A metric that only some
    ranks have (as rank 0 may be the one that validates) is averaged over those."""

    def __init__(self, *, process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self.process_set = process_set

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        if not self.process_set.included():
            return
        own = (self.params or {}).get("steps") or 0
        steps = allgather_object(own, name="keras.steps", process_set=self.process_set)
        if len(set(steps) - {0}) > 1:
            raise ValueError(
                f"the ranks have {steps} batches in an epoch: some would wait for the others' metrics, and these for "
                "their gradients. Give all of them as many batches, or the smallest number as steps_per_epoch"
            )

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if logs is None or not self.process_set.included():
            return
        own = {name: float(value) for name, value in logs.items() if isinstance(value, Real)}
        everyones = allgather_object(own, name="keras.metrics", process_set=self.process_set)
        for name in own:
            values = [each[name] for each in everyones if name in each]
            logs[name] = sum(values) / len(values)


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Multiplies the initial learning rate by a function of the epoch, between two epochs; a number m stands
    for m ** (epoch - start_epoch). ``staircase``: once an epoch; otherwise with every batch, by the fraction
    of the epoch.

    ``momentum_correction``: momenta that already contain the learning rate (those of SGD and RMSprop) are
    multiplied by its change, so that they count as if they had been gathered at the new one."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise ValueError("initial_lr is needed: the learning rate that the multiplier is for")
        self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
        self.staircase, self.momentum_correction = staircase, momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier: Callable[[float], float] = (
            multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        )
        self.current_epoch = 0
        self._scale_momenta: Optional[Callable[[Any], None]] = None

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._scale_momenta = None  # the optimizer may be another one
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise ValueError("steps_per_epoch is needed: Keras does not know the number of batches here")

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        is_over = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or is_over:
            return
        if self.staircase and batch == 0:
            self._adjust(self.current_epoch)
        elif not self.staircase:
            self._adjust(self.current_epoch + batch / (self.steps_per_epoch or 1))

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        old, new = _learning_rate(optimizer), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old and not math.isclose(new, old, rel_tol=SAME_RATE):
            self._correct_momenta(new / old)

    def _correct_momenta(self, factor: float) -> None:
        if self._scale_momenta is None:
            momenta = _momenta(self.model.optimizer)
            if not momenta:  # it has none, or has not made them yet
                return
            self._scale_momenta = _make_scale(momenta)
        self._scale_momenta(np.float32(factor))

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if logs is not None:
            logs["lr"] = _learning_rate(self.model.optimizer)


def _learning_rate(optimizer: Any) -> float:
    return float(tf.convert_to_tensor(optimizer.learning_rate))


def _momenta(optimizer: Any) -> List[Any]:
    """As the correction is usually written, ``momentum`` itself is multiplied for one batch. Keras has put
    that number into its compiled step as a constant, but momentum times momenta is what counts."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(optimizer, "momentum", None):
        return []
    momenta = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
    return [momentum for momentum in momenta if momentum is not None]


def _make_scale(variables: List[Any]) -> Callable[[Any], None]:
    """Multiplies all of them by a factor; compiled, because it may run with every batch."""

    @tf.function
    def scale(factor: Any) -> None:
        for variable in variables:
            variable.assign(tf.convert_to_tensor(variable) * tf.cast(factor, variable.dtype))

    return scale


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from ``initial_lr / size`` to ``initial_lr`` over the first epochs, batch by
    batch: large batches are not stable at the full rate from the start."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            part = (epoch + 1.0 / (self.steps_per_epoch or 1)) / warmup_epochs
            return 1.0 / size() * (min(part, 1.0) * (size() - 1) + 1)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose, self.warmup_epochs = verbose, warmup_epochs

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose > 0 and rank() == 0:
            rate = _learning_rate(self.model.optimizer)
            print(f"epoch {epoch + 1}: the warm-up of the learning rate ends at {rate:g}")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Saves the model when it is the best so far, on rank 0 only; ``filepath`` may be set later. Put it behind
    the callback that averages metrics."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Union[str, int] = "epoch",
        filepath: Optional[str] = None,
    ) -> None:
        super().__init__(
            filepath or ("best.weights.h5" if save_weights_only else "best.keras"),
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if rank() == 0:
            super().on_train_batch_end(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if rank() == 0:
            super().on_epoch_end(epoch, logs)
