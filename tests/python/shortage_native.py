"""Run by test_shortage.py: rueda._native while one call after the other fails."""

from __future__ import annotations

import array
import ctypes
import itertools
import sys
from typing import Any, Callable, List, Tuple

from rueda import _native
from rueda._reduce_op import Sum
from shortage import LOST_MOST, Trials

F32 = 9  # as rueda.h numbers them
ALLREDUCE, ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER = range(5)
ELEMENTS = LOST_MOST // 4 + 1
ROOM = 1 << 20

numbers = itertools.count()
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def tensor(values: "array.array[float]") -> Tuple[int, int, Tuple[int, ...], Any]:
    return (values.buffer_info()[0], F32, (len(values),), values)


def submit(kind: int, values: Any, output: Any = None, splits: Any = None) -> _native.Request:
    return _native.submit(kind, values, output, f"tensor {next(numbers)}", Sum, 1.0, 1.0, 0, 0, 0, splits)


def reduce_one() -> None:
    values, result = array.array("f", [3.0]), array.array("f", [0.0])
    before = sys.getrefcount(values)
    request = submit(ALLREDUCE, tensor(values), tensor(result))
    assert request.wait() and request.poll()
    assert result[0] == 3.0
    del request
    assert sys.getrefcount(values) == before


def drop_while_pending() -> None:
    values = array.array("f", [3.0])
    submit(ALLREDUCE, tensor(values), tensor(values))
    assert _native.barrier(0).wait()


def reduce_group() -> None:
    values = [array.array("f", [float(i)]) for i in range(3)]
    tensors = [tensor(each) for each in values]
    names: List[Any] = [f"group {next(numbers)}", None, f"group {next(numbers)}"]
    names[1] = f"group {next(numbers)}"
    request = _native.submit_group(tensors, list(tensors), names, Sum, 1.0, 1.0, 0, 0)
    assert request.wait()
    assert [each[0] for each in values] == [0.0, 1.0, 2.0]


def data_of(capsule: Any) -> int:
    """Where the tensor of a DLPack capsule lies."""
    managed = ctypes.pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
    return int(ctypes.cast(managed, ctypes.POINTER(ctypes.c_size_t))[0])


def gather() -> None:
    values = array.array("f", [2.0]) * ELEMENTS
    request = submit(ALLGATHER, tensor(values))
    assert request.wait()
    capsule, shape, splits = request.output()
    assert shape == (ELEMENTS,) and splits == ()
    assert ctypes.string_at(data_of(capsule), 4 * ELEMENTS) == values.tobytes()


def gather_bytes() -> None:
    values = array.array("f", [2.0]) * ELEMENTS
    request = submit(ALLGATHER, tensor(values))
    assert request.wait()
    assert request.output_bytes() == values.tobytes()


def exchange() -> None:
    values = array.array("f", [5.0]) * ELEMENTS
    request = submit(ALLTOALL, tensor(values), None, [ELEMENTS])
    assert request.wait()
    capsule, shape, splits = request.output()
    assert shape == (ELEMENTS,) and splits == (ELEMENTS,)
    assert ctypes.string_at(data_of(capsule), 4 * ELEMENTS) == values.tobytes()


def allocate() -> None:
    assert data_of(_native.allocate(ROOM)) == first_room, "memory that could not be lent was kept"


def sets() -> None:
    assert _native.process_set_ranks(0) == [0]
    assert _native.process_set_size(0) == 1 and _native.process_set_rank(0) == 0
    try:
        _native.process_set_add([0])
        raise AssertionError("the set of all ranks is there already")
    except ValueError as error:
        assert "exists already" in str(error)


def signals() -> None:
    assert _native.barrier(0).wait()
    assert _native.join().wait()
    assert _native.last_joined() == 0


def insight() -> None:
    assert _native.stats()["operations"] > 0
    assert _native.orthogonality(None) != 0
    assert _native.version() and _native.transport()
    assert _native.digest(tensor(array.array("f", [1.0]))) >= 0
    assert _native.generation() > 0


class Parameter:
    """Something with a gradient."""

    grad: Any = None


def reducer() -> None:
    values = array.array("f", [4.0, 1.0])
    flat = tensor(values)
    taken: List[int] = []
    made = _native.Reducer(
        _native,
        [(None, 0, 0, 0), (None, 0, 0, 0), (None, -1, 0, 0)],
        [(flat, f"bucket {next(numbers)}", Sum, 1.0, 1.0, 0, 0)],
        lambda: None,
        lambda index, parameter: taken.append(index),
        lambda number: None,
        lambda: 7,
        True,
    )
    before = made.missing()
    hooks: List[Callable[[Any], None]] = [made.hook(i) for i in range(2)]
    for hook in hooks:
        hook(Parameter())
    assert before == [0, 1, 2] and taken == [0, 1] and made.missing() == [2]
    made.arrive(2, False)
    assert made.finish() == []
    assert values.tolist() == [4.0, 1.0]


def refused() -> None:
    """Errors are made of memory, too."""
    try:
        _native.submit(ALLREDUCE, 5, None, None, Sum, 1.0, 1.0, 0, 0, 0, None)
        raise AssertionError("5 is not a tensor")
    except TypeError:
        pass
    try:
        submit(ALLREDUCE, tensor(array.array("f", [1.0])), None, [1])
    except ValueError:
        pass


_native.init([], 0)
first_room = data_of(_native.allocate(ROOM))
trials = Trials(_native.__file__, (MemoryError,))
for step in [
    reduce_one,
    drop_while_pending,
    reduce_group,
    gather,
    gather_bytes,
    exchange,
    allocate,
    sets,
    signals,
    insight,
    reducer,
    refused,
]:
    step()
    trials.run(step)
_native.shutdown()
print(trials.failed, "calls have failed")
