"""Training that goes on after a failure, for Keras' ``fit``.

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    callbacks = [hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state),
                 hvd.elastic.CommitStateCallback(state, batches_per_commit=100)]

    @hvd.elastic.run
    def train(state):
        model.fit(data, epochs=epochs - state.epoch, callbacks=callbacks)

    train(state)

What can be survived today is told in ``rueda._elastic``. Callbacks run in the order of the list: those that
update the state go before the one that commits it.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import keras

from ..tensorflow.elastic import TensorFlowKerasState, run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]

Logs = Optional[Dict[str, Any]]


class KerasState(TensorFlowKerasState):
    """A built model with its optimizer (the one it was compiled with, unless given), and whatever else as
    attributes."""


class CommitStateCallback(keras.callbacks.Callback):
    """Commits the state after so many batches, and at the end of each epoch."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        if batches_per_commit < 1:
            raise ValueError(f"batches_per_commit is {batches_per_commit}; it must be at least 1")
        self.state, self.batches_per_commit = state, batches_per_commit
        self._batches = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._batches = 0  # on all ranks the same, also after a failure

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._batches += 1
        if self._batches % self.batches_per_commit == 0:
            self.state.commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):
    """``state.batch`` is the number of the last batch in this epoch, 0 between epochs; batches before a
    failure count."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._before = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._before = self.state.batch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.state.batch = self._before + batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.batch = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):
    """``state.epoch`` is the number of epochs that are done, over all calls of ``fit``, whatever number
    ``initial_epoch`` gives to its first."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.state.epoch += 1
