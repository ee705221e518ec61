"""What the operations of all frameworks have in common: handles, names, and how to combine."""

from __future__ import annotations

import itertools
import time
from typing import Any, Callable, Dict, Generic, Iterator, List, Optional, Tuple, TypeVar, cast

from . import _native
from ._process_sets import ProcessSet, global_process_set
from ._reduce_op import Adasum, ReduceOp

#: Numbers of the operations in ``_native.submit``.
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, REDUCE, GATHER, SCATTER, SEND, RECV = range(10)


Result = TypeVar("Result")
Other = TypeVar("Other")


class Handle(Generic[Result]):
    """A pending operation. ``synchronize(handle)``, or calling it, waits for its result. Dropping it is
    allowed: the operation goes on, and what it works on stays until it has ended."""

    __slots__ = ("_requests", "_finish", "_result", "_name")

    def __init__(
        self, requests: List[_native.Request], finish: Callable[[], Result], name: Optional[str] = None
    ) -> None:
        self._requests = requests
        self._finish: Optional[Callable[[], Result]] = finish  # None: it has ended
        self._result: Optional[Result] = None
        self._name = name

    def poll(self) -> bool:
        """Whether it has ended. Never blocks."""
        return self._finish is None or all(request.poll() for request in self._requests)

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Blocks until it has ended; its result, the same each time. ``timeout``: at most so many seconds, then
        ``TimeoutError``; the operation goes on, and its end may be waited for again."""
        if self._finish is not None:
            self._await_requests(timeout)
            self._result = self._finish()
            self._finish = None
        return cast(Result, self._result)

    __call__ = wait

    def _await_requests(self, timeout: Optional[float]) -> None:
        if timeout is None:
            for request in self._requests:
                request.wait()
            return
        until = time.monotonic() + timeout
        for request in self._requests:
            if not request.wait(max(0.0, until - time.monotonic())):
                raise TimeoutError(
                    f"{self._name or 'an operation without a name'} has not ended after {timeout:g} s: it waits for "
                    "ranks that have not called it yet. It goes on; wait for it again, or look what they do"
                )

    def _then(self, change: Callable[[Result], Other]) -> "Handle[Other]":
        """The same operation, with another result made of its own. Only one of the two may be waited for."""
        finish = self._finish
        assert finish is not None
        return Handle(self._requests, lambda: change(finish()), self._name)


def poll(handle: Handle[Any]) -> bool:
    """Whether an operation has ended, so that ``synchronize`` will not block."""
    return handle.poll()


def synchronize(handle: Handle[Result], timeout: Optional[float] = None) -> Result:
    """Blocks until an operation has ended and gives its result. Raises what it has ended with, and
    ``TimeoutError`` when ``timeout`` seconds have passed. That, and Ctrl-C, end the wait, not the operation."""
    return handle.wait(timeout)


def barrier_async(process_set: ProcessSet = global_process_set) -> Handle[None]:
    """Starts :func:`barrier` and returns at once."""
    return Handle([_native.barrier(process_set._require_id())], lambda: None, "barrier")


def barrier(process_set: ProcessSet = global_process_set, timeout: Optional[float] = None) -> None:
    """Blocks until all ranks of the set have called it. ``timeout``: at most so many seconds, then
    ``TimeoutError``; it counts as called all the same.

    >>> import rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.barrier()
    """
    barrier_async(process_set).wait(timeout)


def join_async() -> Handle[int]:
    """Starts :func:`join` and returns at once; gives the rank that was the last."""

    def finish() -> int:
        """Ranks agree anew on what they number by order: one that had no data has missed some of it."""
        _native.count_join()
        return _native.last_joined()

    return Handle([_native.join()], finish, "join")


def join(timeout: Optional[float] = None) -> int:
    """Says that this rank has no more data, and blocks until all ranks have said so; the rank that came
    last. Meanwhile this rank gives zeros to what the others average and sum; other operations of theirs
    fail until all have joined. Afterwards everything works as before: broadcast what all need alike from
    the rank that came last, which has seen the most data. ``timeout``: at most so many seconds, then
    ``TimeoutError``; it counts as joined all the same.

    >>> import rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.join() < hvd.size()
    True
    """
    return join_async().wait(timeout)


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


_OPS = tuple(ReduceOp)  # not a range: torch.compile finds no ReduceOp in one


def check_op(op: int) -> int:
    """The same, if it is one."""
    if op not in _OPS:
        raise ValueError(f"op={op!r} is none of Average, Sum, Adasum, Min, Max and Product")
    return op


def refuse_adasum(op: int) -> int:
    """For reducescatter; the same, if it is another one."""
    if check_op(op) == Adasum:
        raise NotImplementedError("reducescatter has no Adasum: allreduce with op=Adasum, and take your rows of it")
    return op


def list_splits(
    word: str, splits: Optional[Any], name: Optional[str], process_set: ProcessSet
) -> Optional[List[int]]:
    """Splits of the operation of that name, a tensor or a list, as the engine takes them."""
    if splits is None:
        return None
    given = splits.tolist() if hasattr(splits, "tolist") else list(splits)
    if not isinstance(given, list) or any(isinstance(rows, list) or int(rows) != rows for rows in given):
        raise ValueError(f"{word} of {name or '(no name)'}: splits must be whole numbers, one for each rank")
    if len(given) != process_set.size():
        raise ValueError(f"{word} of {name or '(no name)'}: {len(given)} splits for {process_set.size()} ranks")
    return [int(rows) for rows in given]
