"""Process sets: parts of the ranks that combine among themselves."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Sequence, Union

from . import _native
from .exceptions import StateError

__all__ = [
    "ProcessSet",
    "add_process_set",
    "get_process_set_by_id",
    "global_process_set",
    "process_set_ids",
    "remove_process_set",
]


_joined_by = 0  # the process that has called init() last


def remember_process() -> None:
    """``init()`` has succeeded in this process."""
    global _joined_by
    _joined_by = os.getpid()


def not_initialized() -> StateError:
    """What to raise without a job."""
    if _joined_by not in (0, os.getpid()):
        return StateError(
            f"process {os.getpid()} was forked from a rank and has no part in its job: leave communication "
            "to the parent, or start processes with spawn and call hvd.init() there"
        )
    return StateError("Rueda has not been initialized; use hvd.init().")


class ProcessSet:
    """Ranks that combine among themselves, in ascending order.

    Made by name of its ranks (a list, or an mpi4py communicator), known to the job after
    :func:`add_process_set` or ``init(process_sets=[…])``.

    >>> import rueda
    >>> rueda.ProcessSet([2, 0]).ranks
    [0, 2]
    """

    def __init__(self, ranks_or_comm: Union[Sequence[int], Any]) -> None:
        self.process_set_id: Optional[int] = None
        self._ranks = _list_ranks(ranks_or_comm)
        self.mpi_comm: Optional[Any] = ranks_or_comm if hasattr(ranks_or_comm, "Get_group") else None

    @property
    def ranks(self) -> List[int]:
        """Global ranks of the set."""
        if self.process_set_id is not None and _native.is_initialized():
            return _native.process_set_ranks(self.process_set_id)
        return list(self._ranks)

    def _require_id(self) -> int:
        if self.process_set_id is None:
            raise ValueError(
                f"{self} is not part of the job yet: give it to init(process_sets=…) or add_process_set()"
            )
        if not _native.is_initialized():
            raise not_initialized()
        return self.process_set_id

    def included(self) -> bool:
        """Whether we are in it."""
        return _native.process_set_rank(self._require_id()) >= 0

    def size(self) -> int:
        """Number of its ranks. None, like :meth:`rank`, while the set is not part of the job."""
        if self.process_set_id is None:
            return None  # type: ignore[return-value]
        return _native.process_set_size(self._require_id())

    def rank(self) -> int:
        """Our index in it, -1 if we are not."""
        if self.process_set_id is None:
            return None  # type: ignore[return-value]
        return _native.process_set_rank(self._require_id())

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcessSet):
            return NotImplemented
        return self.process_set_id == other.process_set_id and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(tuple(self._ranks))


class _GlobalProcessSet(ProcessSet):
    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0


def _list_ranks(ranks_or_comm: Union[Sequence[int], Any]) -> List[int]:
    if hasattr(ranks_or_comm, "Get_group"):
        return _ranks_of_communicator(ranks_or_comm)
    return sorted(int(rank) for rank in ranks_or_comm)


def _ranks_of_communicator(comm: Any) -> List[int]:
    from mpi4py import MPI  # whoever has a communicator has it

    everyone = MPI.COMM_WORLD.Get_group()
    group = comm.Get_group()
    return sorted(MPI.Group.Translate_ranks(group, list(range(group.Get_size())), everyone))


#: All ranks of the job.
global_process_set = _GlobalProcessSet()
_added: List[ProcessSet] = []


def take_first_sets(process_sets: Optional[Sequence[ProcessSet]]) -> List[ProcessSet]:
    """What ``init`` was asked for, checked; it gives them their numbers."""
    if process_sets is None:
        return []
    if not all(isinstance(each, ProcessSet) for each in process_sets):
        raise ValueError(f"init(process_sets={process_sets!r}): a list of ProcessSet")
    sets = [each for each in process_sets if each is not global_process_set]
    seen: List[List[int]] = []
    for process_set in sets:
        if process_set.ranks in seen:
            raise ValueError(f"init(process_sets=…): {process_set.ranks} is there twice")
        seen.append(process_set.ranks)
    _added.extend(sets)
    return sets


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Makes a set, on every rank of the job with the same ranks; blocks until all have called it.
    ``ValueError``: such a set exists already, or a rank is out of range."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is part of the job already")
    process_set.process_set_id = _native.process_set_add(process_set.ranks)
    _added.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a set on every rank of the job (all must call it). False: it is the global one, or unknown."""
    number = process_set.process_set_id
    if number is None or number == 0 or _native.process_set_size(number) < 0:
        return False
    process_set._ranks = process_set.ranks
    _native.process_set_remove(number)
    process_set.process_set_id = None
    _added[:] = [each for each in _added if each is not process_set]
    return True


def process_set_ids() -> List[int]:
    """Numbers of all sets of the job."""
    return [0] + [each.process_set_id for each in _added if each.process_set_id is not None]


def get_process_set_by_id(number: int) -> ProcessSet:
    """The set of that number; ``ValueError`` if there is none."""
    for process_set in [global_process_set, *_added]:
        if process_set.process_set_id == number:
            return process_set
    raise ValueError(f"there is no process set {number}")


def forget_process_sets() -> None:
    """After ``shutdown``: sets are without a number again."""
    for process_set in _added:
        process_set.process_set_id = None
    _added.clear()
