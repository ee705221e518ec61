"""What the operations of all frameworks have in common: handles, names, and how to combine."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from . import _native
from ._basics import Average, Product, Sum
from ._process_sets import ProcessSet

#: Numbers of the operations in ``_native.submit``.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = range(5)


class Handle:
    """A pending operation. ``synchronize(handle)``, or calling it, waits for its result. Dropping it is
    allowed: the operation goes on, and what it works on stays until it has ended."""

    __slots__ = ("_requests", "_finish", "_result")

    def __init__(self, requests: List[_native.Request], finish: Callable[[], Any]) -> None:
        self._requests = requests
        self._finish: Optional[Callable[[], Any]] = finish  # None: it has ended
        self._result: Any = None

    def poll(self) -> bool:
        """Whether it has ended. Never blocks."""
        return self._finish is None or all(request.poll() for request in self._requests)

    def wait(self) -> Any:
        """Blocks until it has ended; its result, the same each time."""
        if self._finish is not None:
            for request in self._requests:
                request.wait()
            self._result = self._finish()
            self._finish = None
        return self._result

    __call__ = wait


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


def member_names(name: Optional[str], count: int) -> List[Optional[str]]:
    """Names of the members of a group."""
    return [None if name is None else f"{name}_{i}of{count}" for i in range(count)]


_unnamed_groups: Dict[Tuple[int, int], Iterator[int]] = {}


def group_name(name: Optional[str], process_set: ProcessSet, numbers: int = 1 << 62) -> str:
    """A group is known by its name; one without is numbered by order, like tensors without a name. After so
    many ``numbers`` the first comes again."""
    if name is not None:
        return name
    members = (_native.generation(), process_set._require_id())
    return f"noname.group{next(_unnamed_groups.setdefault(members, itertools.count())) % numbers}"


def resolve_op(average: Optional[bool], op: Optional[int]) -> int:
    """``average`` is the old way to say ``op``; neither means ``Average``."""
    if average is not None and op is not None:
        raise ValueError("op and average say the same thing twice: give only op")
    if op is not None:
        return check_op(op)
    return Sum if average is False else Average


def check_op(op: int) -> int:
    """The same, if it is one."""
    if op not in range(Product + 1):
        raise ValueError(f"op={op!r} is none of Average, Sum, Adasum, Min, Max and Product")
    return op


def list_splits(splits: Optional[Sequence[int]]) -> Optional[List[int]]:
    """Splits of alltoall as the engine takes them."""
    return None if splits is None else [int(rows) for rows in splits]
