"""Training that goes on after a failure, for TensorFlow and Keras.

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)

    @hvd.elastic.run
    def train(state):
        for state.batch in range(state.batch, batches):
            step(…)
            if state.batch % 10 == 0:
                state.commit()

    train(state)

What can be survived today is told in ``rueda._elastic``.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any, Callable, Iterator, List, Optional, Sequence

import tensorflow as tf

from .._basics import is_initialized, rank
from .._elastic import ObjectState, run_fn
from ..exceptions import RuedaError, StateError
from ._keras_state import optimizer_variables, shared_state
from .functions import broadcast_object, broadcast_variables

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]

#: TensorFlow names the operation that failed in its message; these are ours.
_OUR_OPERATIONS = re.compile(r"\bRueda(Start|StartSized|Wait|Take)")
#: What they fail with, but for mistakes of the caller.
_FAILURES = (tf.errors.AbortedError, tf.errors.FailedPreconditionError, tf.errors.UnknownError)


@contextlib.contextmanager
def as_rueda_error() -> Iterator[None]:
    """TensorFlow's errors that are failures of our operations become ``RuedaError``, with TensorFlow's as
    the cause."""
    try:
        yield
    except _FAILURES as error:
        if not _OUR_OPERATIONS.search(str(error)):
            raise
        raise (RuedaError if is_initialized() else StateError)(str(error)) from error


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates the function that trains; its first argument is the state. It is called again after a
    failure, from the last commit."""

    @functools.wraps(func)
    def understood(*args: Any, **kwargs: Any) -> Any:
        with as_rueda_error():
            return func(*args, **kwargs)

    return run_fn(understood)


class _VariablesState(ObjectState):
    """Variables, kept as copies in this process; subclasses say how they are read, written and sent."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)
        self._save_variables()

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        self._restore_variables()
        super().restore()

    def sync(self) -> None:
        with as_rueda_error():
            self._send_variables()
        self._save_variables()
        super().sync()

    def _save_variables(self) -> None:
        raise NotImplementedError

    def _restore_variables(self) -> None:
        raise NotImplementedError

    def _send_variables(self) -> None:
        raise NotImplementedError


class TensorFlowKerasState(_VariablesState):
    """A Keras model and its optimizer, and whatever else as attributes. The model must be built. Gradients
    that wait to be used and the states of random generators are kept, but stay each rank's own."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", True):
            raise ValueError("the model has no variables yet: call model.build(input_shape) first")
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        if self.optimizer is not None and not getattr(self.optimizer, "built", True):
            self.optimizer.build(model.trainable_variables)  # else its variables come after the first commit
        super().__init__(**kwargs)

    def _variables(self) -> List[Any]:
        return [
            *self.model.variables,
            *(optimizer_variables(self.optimizer) if self.optimizer is not None else []),
        ]

    def _save_variables(self) -> None:
        self._saved_variables = [tf.identity(tf.convert_to_tensor(v)) for v in self._variables()]

    def _restore_variables(self) -> None:
        for variable, value in zip(self._variables(), self._saved_variables):
            variable.assign(value)

    def _send_variables(self) -> None:
        broadcast_variables(shared_state(self.model, self.optimizer), root_rank=0)


class TensorFlowState(_VariablesState):
    """A list of variables, and whatever else as attributes. In graphs of version 1 ``session`` reads and
    writes them, and ``variables`` may be left out: all global ones."""

    def __init__(self, variables: Optional[Sequence[Any]] = None, session: Any = None, **kwargs: Any) -> None:
        self.variables = list(variables or tf.compat.v1.global_variables())
        self.session = session or tf.compat.v1.get_default_session()
        if not self.variables:
            raise ValueError("there are no variables to keep: give a list of them")
        if not tf.executing_eagerly():
            self._make_operations()
        super().__init__(**kwargs)

    def _make_operations(self) -> None:
        if self.session is None:
            raise ValueError("in a graph of version 1 a session is needed")
        self._inputs = [tf.compat.v1.placeholder(v.dtype.base_dtype, v.shape) for v in self.variables]
        self._assign = tf.group(*[v.assign(each) for v, each in zip(self.variables, self._inputs)])
        self._broadcast = broadcast_variables(self.variables, root_rank=0)

    def _save_variables(self) -> None:
        if tf.executing_eagerly():
            self._saved_variables = [v.numpy() for v in self.variables]
        else:
            self._saved_variables = self.session.run(self.variables)

    def _restore_variables(self) -> None:
        if not tf.executing_eagerly():
            self.session.run(self._assign, dict(zip(self._inputs, self._saved_variables)))
            return
        for variable, value in zip(self.variables, self._saved_variables):
            variable.assign(value)

    def _send_variables(self) -> None:
        if tf.executing_eagerly():
            broadcast_variables(self.variables, root_rank=0)
        else:
            self.session.run(self._broadcast)
