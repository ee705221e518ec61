"""What can go wrong. Bad arguments are plain ``ValueError``; everything else is below."""

from __future__ import annotations

from typing import Optional


class RuedaError(RuntimeError):
    """An operation failed on every rank: the ranks disagree about a tensor, a rank was lost, the job was
    shut down. The message names the rank, the tensor and what to do. Horovod's name for it is
    ``HorovodInternalError``."""

    __init__ = Exception.__init__  # only then an error leaves a ``tf.function`` as what it is


class StateError(RuedaError, ValueError):
    """The call needs a job: ``init()`` has not been called, or ``shutdown()`` has, or this process was
    forked from a rank."""

    __init__ = Exception.__init__  # as above


class WorkerError(RuntimeError):
    """A function that ``rueda.run`` has started failed on a rank.

    ``rank``: which (None: it is not known); ``traceback``: of that rank, as text ("": it died); ``exception``:
    what it raised, if that could be sent, which is also the cause of this one."""

    def __init__(
        self,
        rank: Optional[int],
        message: str,
        traceback: str = "",
        exception: Optional[BaseException] = None,
    ) -> None:
        super().__init__(f"{message}\n\n{traceback}" if traceback else message)
        self.rank = rank
        self.traceback = traceback
        self.exception = exception


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts has changed; an elastic job starts over with its state kept."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__(skip_sync)
        self.skip_sync = skip_sync


class VersionMismatchError(ImportError):
    """A part of rueda is of another version than the rest: install it again."""
