"""The life of a job: joining it, leaving it, and who we are in it."""

from __future__ import annotations

import atexit
import sys
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _native
from .exceptions import StateError
from ._process_sets import (
    ProcessSet,
    forget_process_sets,
    not_initialized,
    remember_process,
    take_first_sets,
)

__all__ = [
    "cross_rank",
    "cross_size",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "members_changing",
    "members_update",
    "rank",
    "shutdown",
    "size",
    "start_timeline",
    "stats",
    "stop_timeline",
    "transport",
]


def init(
    comm: Optional[Any] = None,
    process_sets: Optional[Sequence[ProcessSet]] = None,
) -> None:
    """Joins the job that the environment describes; a process started alone is a job of one rank.

    Blocks until all ranks have called it. A second call without ``shutdown()`` in between does nothing.
    ``process_sets``: sets to make at once, the same on all ranks; others can be added later. ``comm``: an mpi4py
    communicator, whose ranks then are the job (MPI must have been initialised with ``MPI.THREAD_MULTIPLE``), or
    all ranks of the job as a list; for a part of them use a :class:`ProcessSet`.

    >>> import rueda
    >>> rueda.init()
    >>> rueda.rank() < rueda.size()
    True
    """
    if _native.is_initialized():
        return
    sets = take_first_sets(process_sets)
    _native.init([process_set.ranks for process_set in sets], _communicator_address(comm))
    remember_process()
    for number, process_set in enumerate(sets, start=1):
        process_set.process_set_id = number
    atexit.register(_leave)
    try:
        _check_communicator(comm)
    except ValueError:
        shutdown()
        raise


def _communicator_address(comm: Optional[Any]) -> int:
    if not hasattr(comm, "Get_size"):
        return 0
    from mpi4py import MPI  # whoever has a communicator has it

    return MPI._addressof(comm)


def _check_communicator(comm: Optional[Any]) -> None:
    if comm is None or hasattr(comm, "Get_size"):
        return
    given: List[int] = sorted(comm)
    if given != list(range(size())):
        raise ValueError(
            f"init(comm=…) names the ranks {given}, but the job has {size()} ranks: leave comm out, "
            "and make a ProcessSet for a part of the ranks"
        )


def shutdown() -> None:
    """Leaves the job; operations that all ranks agreed on are finished first. Does nothing when there is
    no job. ``init()`` may follow."""
    if _native.is_initialized():
        atexit.unregister(_leave)
        _native.shutdown()
    forget_process_sets()


def members_changing() -> bool:
    """Whether ranks of an elastic job (``rueda run --min-np``) were lost, so that :func:`members_update` would go on
    with the others."""
    return bool(_native.members_changing())


def members_update() -> int:
    """Goes on with the ranks of an elastic job that are left, and returns the number of this view of it. Blocks until
    all of them have called it. ``rank()`` and ``size()`` are new afterwards, process sets are gone, and what was in
    flight has failed: make the ranks' states equal before going on, as ``elastic.run`` does. Without a loss it
    does nothing. Raises ``RuedaError`` if the others have gone on without this rank, ``StateError`` if the job is not
    elastic.
    """
    changing = members_changing()
    try:
        view = _native.members_update()
    finally:
        if not _native.is_initialized():
            atexit.unregister(_leave)
    if changing:
        forget_process_sets()
    return view


def _leave() -> None:
    """At the end of the interpreter. After an exception nobody caught, this rank dies without a goodbye:
    the others then learn that it died, instead of failing before the launcher knows whose fault it is."""
    if getattr(sys, "last_value", None) is not None:
        return
    try:
        shutdown()
    except StateError:  # a forked child has no part in the job
        pass


def is_initialized() -> bool:
    """Whether this process is a rank of a job now."""
    return bool(_native.is_initialized())


def _known(value: int) -> int:
    if value < 0:
        raise not_initialized()
    return value


def rank() -> int:
    """Our number in the job, from 0. Raises ``ValueError`` before ``init()``, as do those below."""
    return _known(_native.rank())


def size() -> int:
    """Number of ranks of the job."""
    return _known(_native.size())


def local_rank() -> int:
    """Our number among the ranks of this host; the usual choice of a GPU."""
    return _known(_native.local_rank())


def local_size() -> int:
    """Number of ranks on this host."""
    return _known(_native.local_size())


def cross_rank() -> int:
    """Our number among the ranks with our local rank on all hosts."""
    return _known(_native.cross_rank())


def cross_size() -> int:
    """Number of hosts that have a rank of our local rank."""
    return _known(_native.cross_size())


def is_homogeneous() -> bool:
    """Whether every host has the same number of ranks."""
    return bool(_known(_native.is_homogeneous()))


def transport() -> str:
    """How the data of this job moves between hosts, or on the only one: ``"shm"``, ``"tcp"`` or ``"mpi"``."""
    _known(_native.rank())
    return _native.transport()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Writes a timeline for Perfetto from now on, on rank 0. At any time; operations go on meanwhile."""
    _known(_native.rank())
    _native.timeline_start(file_path, mark_cycles)


def stop_timeline() -> None:
    """Ends the timeline; returns when all is in the file."""
    _known(_native.rank())
    _native.timeline_stop()


def stats() -> Dict[str, Union[int, float]]:
    """Counters of this rank since ``init()``: operations, launches, bytes, rounds and more; and of the last
    Adasum: orthogonality, workers_worth; see ``rueda_stats`` in ``rueda.h``."""
    return _native.stats()


def orthogonality(name: Optional[str] = None) -> float:
    """How much the ranks' gradients of the last Adasum differed, between 1 (orthogonal: every worker adds
    something of its own) and 1/size (all equal: one worker would have done); opposed gradients give less.

    ``name``: of one tensor; None: all of the last operations together. NaN before the first Adasum;
    ``ValueError`` for a tensor that no Adasum has had.
    """
    return _native.orthogonality(name)
