"""Start values and objects that all ranks should share. Objects need no ``session``; it may be given all the same."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import rueda.tensorflow as _served
from rueda import ProcessSet, global_process_set
from rueda.tensorflow._ops import as_it_is

__all__ = [
    "BroadcastGlobalVariablesHook",
    "allgather_object",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]


@as_it_is
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """``rueda.tensorflow.broadcast_variables``, which is always in place."""
    return _served.broadcast_variables(variables, root_rank, process_set)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """``rueda.tensorflow.broadcast_object``."""
    return _served.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """``rueda.tensorflow.broadcast_object_fn``."""
    return _served.broadcast_object_fn(root_rank, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """``rueda.tensorflow.allgather_object``."""
    return _served.allgather_object(obj, name, process_set)


class BroadcastGlobalVariablesHook(_served.BroadcastGlobalVariablesHook):
    """The same with a device, which says nothing."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__(root_rank)
        self.device = device
