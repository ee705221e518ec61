"""What Keras' ``fit`` calls: start values, averaged metrics, learning rates."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Union

import keras
import numpy as np

from .._basics import rank, size
from .._process_sets import ProcessSet, global_process_set
from ..tensorflow import _ops
from ..tensorflow.functions import broadcast_variables

SAME_RATE = 1e-6  # relative; a learning rate is kept as float32


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Gives every rank the weights and the optimizer's state of ``root_rank``, after the first batch: then
    all of them exist."""

    def __init__(self, root_rank: int, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self.root_rank, self.device, self.process_set = root_rank, device, process_set
        self._done = False
        self._local: set = set()

    def register_local_var(self, variable: Any) -> None:
        """This variable stays the rank's own."""
        self._local.add(id(variable))

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        self._done = False

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if self._done:
            return
        variables = [*self.model.variables, *_optimizer_state(getattr(self.model, "optimizer", None))]
        shared = {id(v): v for v in variables if id(v) not in self._local and _is_number(v)}
        broadcast_variables(list(shared.values()), self.root_rank, self.process_set)
        self._done = True


def _optimizer_state(optimizer: Any) -> List[Any]:
    """What an optimizer remembers, but for gradients that it has not used yet: those are each rank's own."""
    if optimizer is None:
        return []
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    unused = {id(v) for v in getattr(inner, "_accumulated_gradients", None) or []}
    return [v for v in optimizer.variables if id(v) not in unused]


def _is_number(variable: Any) -> bool:
    return "string" not in str(variable.dtype) and "key" not in str(variable.dtype)


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages the metrics of an epoch over all ranks, so that others (checkpoints, schedules, logs) see the
    same numbers everywhere; put it before them."""

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self.process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if not logs or self.process_set.size() == 1:
            return
        names = sorted(name for name, value in logs.items() if np.isscalar(value))
        values = np.array([float(logs[name]) for name in names], dtype=np.float64)
        means = _ops.allreduce(values, op=0, name="keras.metrics", process_set=self.process_set).numpy()
        logs.update({name: float(mean) for name, mean in zip(names, means)})


def _velocities(optimizer: Any) -> List[Any]:
    """What an optimizer with momentum carries from step to step: rate × gradients. (To change
    ``optimizer.momentum`` for a step instead would not do: Keras compiles its value into the step.)"""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "momentum", 0):
        return []
    return getattr(inner, "momentums", None) or getattr(inner, "_momentums", None) or []


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Multiplies the initial learning rate by a number, or by a function of the epoch, between two epochs.
    ``staircase``: once an epoch; otherwise with every batch, by the fraction of the epoch.
    ``momentum_correction``: what an optimizer with momentum carries on gets the new rate, too."""

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
        if not callable(multiplier):
            self.staircase = True
        self.multiplier: Callable[[float], float] = multiplier if callable(multiplier) else (lambda epoch: multiplier)
        self.current_epoch = 0

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = (self.params or {}).get("steps")
            if not self.steps_per_epoch:
                raise ValueError("steps_per_epoch is needed: Keras does not know the number of batches here")

    def on_epoch_begin(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if self.staircase and batch == 0:
            self._adjust(self.current_epoch)
        elif not self.staircase:
            self._adjust(self.current_epoch + float(batch) / self.steps_per_epoch)

    def _adjust(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        old = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
        new = self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old and not math.isclose(new, old, rel_tol=SAME_RATE):
            for velocity in _velocities(optimizer):
                velocity.assign(velocity * (new / old))

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if logs is not None:
            logs["lr"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))


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

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch
        )
        self.verbose, self.warmup_epochs = verbose, warmup_epochs

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        super().on_epoch_end(epoch, logs)
        if epoch == self.warmup_epochs - 1 and self.verbose > 0 and rank() == 0:
            rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
            print(f"epoch {epoch + 1}: the warm-up of the learning rate ends at {rate:g}")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Saves the model when it is the best so far, on rank 0 only; the path may be set later."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: Union[str, int] = "epoch",
        filepath: str = "best.keras",
    ) -> None:
        super().__init__(filepath, monitor=monitor, verbose=verbose, save_best_only=True, mode=mode, save_freq=save_freq)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        if rank() == 0:
            super().on_epoch_end(epoch, logs)
