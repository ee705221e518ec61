"""Python objects between ranks, pickled; over the extension alone, whatever the framework."""

from __future__ import annotations

import ctypes
import pickle
from typing import Any, Callable, List, Optional

from . import _native
from ._process_sets import ProcessSet, global_process_set

_ALLGATHER, _BROADCAST = 1, 2
_U8, _I64 = 1, 6


def _broadcast_bytes(buffer: Any, dtype: int, count: int, root: int, name: Optional[str], number: int) -> None:
    tensor = (ctypes.addressof(buffer), dtype, (count,), buffer)
    _native.submit(_BROADCAST, tensor, None, name, 0, 1.0, 1.0, number, 0, root, None).wait()


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of ``root_rank``, on every rank; pickled in between. Blocks until all have called it."""
    number = process_set._require_id()
    is_root = process_set.ranks[process_set.rank()] == root_rank
    data = pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL) if is_root else b""
    name = name or "object"
    size = (ctypes.c_int64 * 1)(len(data))
    _broadcast_bytes(size, _I64, 1, root_rank, f"broadcast.{name}.size", number)
    buffer = (ctypes.c_uint8 * max(size[0], 1)).from_buffer(bytearray(data.ljust(max(size[0], 1), b"\0")))
    _broadcast_bytes(buffer, _U8, size[0], root_rank, f"broadcast.{name}.data", number)
    return obj if is_root else pickle.loads(bytes(buffer)[: size[0]])


def broadcast_object_fn(
    root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """``broadcast_object`` with everything but the object given."""
    return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def _allgather_bytes(buffer: Any, dtype: int, count: int, name: str, number: int) -> bytes:
    tensor = (ctypes.addressof(buffer), dtype, (count,), buffer)
    request = _native.submit(_ALLGATHER, tensor, None, name, 0, 1.0, 1.0, number, 0, 0, None)
    request.wait()
    return request.output_bytes()


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """The objects of all ranks of the set, in its order. Blocks until all have called it."""
    number = process_set._require_id()
    data = pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    name = name or "object"
    size = (ctypes.c_int64 * 1)(len(data))
    sizes = memoryview(_allgather_bytes(size, _I64, 1, f"allgather.{name}.sizes", number)).cast("q")
    buffer = (ctypes.c_uint8 * len(data)).from_buffer(bytearray(data))
    everything = _allgather_bytes(buffer, _U8, len(data), f"allgather.{name}.data", number)
    objects, start = [], 0
    for length in sizes:
        objects.append(pickle.loads(everything[start : start + length]))
        start += length
    return objects
