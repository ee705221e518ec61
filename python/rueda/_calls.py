"""What the operations of all frameworks have in common: handles, names, and how to combine."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _native
from ._basics import Average, Sum
from ._process_sets import ProcessSet

#: Numbers of the operations in ``_native.submit``.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = range(5)


class Handle:
    """A pending operation. ``synchronize(handle)`` waits for its result. Dropping it is allowed: the
    operation goes on, and what it works on stays until it has ended."""

    __slots__ = ("_request", "_finish", "_result")

    def __init__(self, request: Optional[_native.Request], finish: Callable[[], Any]) -> None:
        self._request = request  # None: there is nothing to wait for
        self._finish: Optional[Callable[[], Any]] = finish
        self._result: Any = None

    def poll(self) -> bool:
        """Whether it has ended. Never blocks."""
        return self._finish is None or self._request is None or self._request.poll()

    def wait(self) -> Any:
        """Blocks until it has ended; its result, the same each time."""
        if self._finish is not None:
            if self._request is not None:
                self._request.wait()
            self._result = self._finish()
            self._finish = None
        return self._result


def poll(handle: Handle) -> bool:
    """Whether an operation has ended, so that ``synchronize`` will not block."""
    return handle.poll()


def synchronize(handle: Handle) -> Any:
    """Blocks until an operation has ended and gives its result. Raises what it has ended with; Ctrl-C
    interrupts the wait, not the operation."""
    return handle.wait()


def full_name(operation: str, name: Optional[str]) -> Optional[str]:
    """Names are the same on all ranks; None lets the engine number them by order."""
    return None if name is None else f"{operation}.{name}"


def member_names(operation: str, name: str, count: int) -> List[Optional[str]]:
    """Names of the members of a group."""
    return [full_name(operation, f"{name}_{i}of{count}") for i in range(count)]


_unnamed_groups: Dict[Tuple[int, int], Iterator[int]] = {}


def group_name(name: Optional[str], process_set: ProcessSet) -> str:
    """A group is known by its name; one without is numbered by order, like tensors without a name."""
    if name is not None:
        return name
    members = (_native.generation(), process_set._require_id())
    return f"noname.list{next(_unnamed_groups.setdefault(members, itertools.count()))}"


def resolve_op(average: Optional[bool], op: Optional[int]) -> int:
    """``average`` is another way to say ``op``; neither means ``Average``."""
    if average is not None and op is not None:
        raise ValueError("op and average say the same thing twice: give only op")
    if op is not None:
        return op
    return Sum if average is False else Average


def list_splits(splits: Optional[Sequence[int]]) -> Optional[List[int]]:
    """Splits of alltoall as the engine takes them."""
    return None if splits is None else [int(rows) for rows in splits]
