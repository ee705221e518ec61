"""Training that goes on after a failure: what is kept of it, and the loop that starts it over.

Framework front ends add how their own objects are kept; see ``rueda.torch.elastic``.

What is survived: an error that all ranks see (they disagreed about a tensor, a check of the user's raised
``RuedaError``), and in an elastic job (``rueda run --min-np``, so far on one host) the loss of ranks: the others go on
without them. Nobody joins later yet. Process sets are gone afterwards: add them again in a reset callback.
"""

from __future__ import annotations

import copy
import functools
import queue
from typing import Any, Callable, Dict, List, Sequence, Tuple

from ._basics import init, members_changing, members_update, shutdown
from .exceptions import HostsUpdatedInterrupt, RuedaError, StateError

#: So many failures without a commit between them end the job: it would fail for ever.
MAX_FAILURES = 3


class State:
    """What is kept of a training. ``bcast_object(obj)`` gives rank 0's object to all ranks, ``get_rank()``
    is ours."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object, self._rank = bcast_object, get_rank
        self._host_messages: "queue.Queue[Tuple[float, int]]" = queue.Queue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: List[Callable[[], None]] = []
        self._commits = 0

    def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Functions to call after each new start, before the states are made equal."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """After a new start."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int = 0) -> None:
        """Hosts have come or gone; from any thread. The next :meth:`check_host_updates` tells it, if rank 0
        has heard of it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves, and checks for changes of the hosts. On all ranks at the same place."""
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises ``HostsUpdatedInterrupt`` on all ranks if rank 0 has heard of a change."""
        newest = self._last_updated_timestamp
        while not self._host_messages.empty():
            newest = max(newest, self._host_messages.get()[0])
        before, self._last_updated_timestamp = self._last_updated_timestamp, self._bcast_object(newest)
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt()

    def save(self) -> None:
        """Remembers how everything is now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Makes everything as it was at the last save."""
        raise NotImplementedError

    def sync(self) -> None:
        """Makes everything as it is on rank 0, and saves it."""
        raise NotImplementedError

    def reset(self) -> None:
        """For subclasses: what else to do after a new start."""


class ObjectState(State):
    """Python objects that can be pickled, as attributes: ``ObjectState(…, epoch=0).epoch``."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = copy.deepcopy(kwargs)
        self._set_attributes(kwargs)

    def _set_attributes(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def save(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attributes(copy.deepcopy(self._saved_state))

    def sync(self) -> None:
        if self._saved_state:
            values = {name: getattr(self, name) for name in self._saved_state}
            self._set_attributes(self._bcast_object(values))
            self.save()


def _join_again() -> None:
    """Goes on with the ranks that are left; without a loss leaves the job and joins it again, with all others."""
    if members_changing():
        members_update()
    else:
        shutdown()
        init()


class _Failures:
    """Counts those that no commit has come after."""

    def __init__(self, state: State) -> None:
        self._state, self._commits, self._count = state, state._commits, 0

    def too_many(self) -> bool:
        """One more."""
        if self._state._commits != self._commits:
            self._commits, self._count = self._state._commits, 0
        self._count += 1
        return self._count >= MAX_FAILURES


def run_fn(func: Callable[..., Any], reset: Callable[[], None] = _join_again) -> Callable[..., Any]:
    """``func(state, …)`` that starts over: states are made equal, then it runs. After a ``RuedaError`` the
    last save is restored, after a ``HostsUpdatedInterrupt`` everything stays as it is; then ``reset()`` leaves
    the job and joins it again. Errors of the user's own pass through; so does the third failure in a row
    without a commit."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Any:
        failures = _Failures(state)
        while True:
            try:
                state.sync()
                return func(state, *args, **kwargs)
            except StateError:
                raise  # a mistake of the caller, which would only come again
            except RuedaError:
                if failures.too_many():
                    raise
                state.restore()
            except HostsUpdatedInterrupt:
                pass
            reset()
            state.on_reset()

    return wrapper
