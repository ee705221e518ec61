"""The operations on arrays. Everything that numpy.asarray takes is an array here; results are new arrays,
except of the functions whose names end with an underscore, which change their argument."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import contiguous, from_output, native, target
from .. import _native
from .._basics import Average
from .._calls import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    REDUCESCATTER,
    Handle,
    full_name,
    group_name,
    list_splits,
    member_names,
    resolve_op,
)
from .._process_sets import ProcessSet, global_process_set

__all__ = [
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "join",
    "reducescatter",
    "reducescatter_async",
]

_NO_ROOT = 0
_NO_PRIORITY = 0


def _finisher(result: np.ndarray, into: Optional[np.ndarray]) -> Callable[[], np.ndarray]:
    """What the handle gives: the result, or the user's array with it."""

    def finish() -> np.ndarray:
        if into is None or into is result:
            return result
        into[...] = result
        return into

    return finish


def _submit(
    operation: int,
    word: str,
    array: Any,
    into: Optional[np.ndarray],
    name: Optional[str],
    process_set: ProcessSet,
    op: int = Average,
    prescale: float = 1.0,
    postscale: float = 1.0,
    root: int = _NO_ROOT,
) -> Handle:
    """An operation whose output is as large as its input; ``into`` None: a new array."""
    source = contiguous(array, name)
    result = source if into is not None else np.empty_like(source)
    request = _native.submit(
        operation,
        native(source),
        None if result is source else native(result),
        full_name(word, name),
        op,
        prescale,
        postscale,
        process_set._require_id(),
        _NO_PRIORITY,
        root,
        None,
    )
    return Handle(request, _finisher(result, into))


def _submit_sized(
    operation: int,
    word: str,
    array: Any,
    name: Optional[str],
    process_set: ProcessSet,
    op: int = Average,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: Optional[Sequence[int]] = None,
) -> Handle:
    """An operation whose output has a size of its own; gives (array, received splits)."""
    source = contiguous(array, name)
    request = _native.submit(
        operation,
        native(source),
        None,
        full_name(word, name),
        op,
        prescale,
        postscale,
        process_set._require_id(),
        _NO_PRIORITY,
        _NO_ROOT,
        list_splits(splits),
    )
    return Handle(request, lambda: from_output(request, source.dtype))


def _first(handle: Handle) -> Handle:
    """The same handle, but its result is the array alone."""
    finish = handle._finish
    assert finish is not None
    handle._finish = lambda: finish()[0]
    return handle


# ---- allreduce --------------------------------------------------------------------------------------


def allreduce_async(
    array: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`allreduce` and returns at once. The array must not change until the end.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> handle = hvd.allreduce_async(np.ones(2), name="weights")
    >>> hvd.synchronize(handle)
    array([1., 1.])
    """
    op = resolve_op(average, op)
    return _submit(ALLREDUCE, "allreduce", array, None, name, process_set, op, prescale_factor, postscale_factor)


def allreduce_async_(
    array: np.ndarray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`allreduce_` and returns at once. The array must not be used until the end."""
    op, into = resolve_op(average, op), target(array, name)
    return _submit(ALLREDUCE, "allreduce", array, into, name, process_set, op, prescale_factor, postscale_factor)


def allreduce(
    array: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Combines the ranks' arrays element by element; every rank gets the result, a new array. Blocks until
    all ranks of the set have called it.

    ``op``: ``Average`` (if nothing is said), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``;
    ``average=False`` is ``Sum``. ``name``: the same on all ranks; without one, calls are matched by their
    order. Each input is multiplied by ``prescale_factor`` first, the result by ``postscale_factor``.
    ``ValueError``: bad arguments; ``RuedaError``: the ranks disagree, or a rank was lost.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.allreduce(np.array([1.0, 2.0]))
    array([1., 2.])
    >>> hvd.allreduce([hvd.rank()], op=hvd.Max) == hvd.size() - 1
    array([ True])
    """
    return allreduce_async(array, average, name, op, prescale_factor, postscale_factor, process_set).wait()


def allreduce_(
    array: np.ndarray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """:func:`allreduce` in place; returns the array itself.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> gradient = np.full((2, 2), 4.0)
    >>> hvd.allreduce_(gradient, prescale_factor=0.5) is gradient
    True
    >>> gradient
    array([[2., 2.],
           [2., 2.]])
    """
    return allreduce_async_(array, average, name, op, prescale_factor, postscale_factor, process_set).wait()


# ---- grouped allreduce ------------------------------------------------------------------------------


def _submit_group(
    arrays: Sequence[Any],
    intos: Sequence[Optional[np.ndarray]],
    name: Optional[str],
    op: int,
    scales: Tuple[float, float],
    process_set: ProcessSet,
) -> Handle:
    if len(arrays) == 0:
        return Handle(None, list)
    names = member_names("allreduce", group_name(name, process_set), len(arrays))
    sources = [contiguous(array, each) for array, each in zip(arrays, names)]
    results = [np.empty_like(source) if into is None else source for source, into in zip(sources, intos)]
    request = _native.submit_group(
        [native(source) for source in sources],
        [None if result is source else native(result) for result, source in zip(results, sources)],
        names,
        op,
        *scales,
        process_set._require_id(),
        _NO_PRIORITY,
    )
    finishers = [_finisher(result, into) for result, into in zip(results, intos)]
    return Handle(request, lambda: [finish() for finish in finishers])


def grouped_allreduce_async(
    arrays: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`grouped_allreduce` and returns at once."""
    op, scales = resolve_op(average, op), (prescale_factor, postscale_factor)
    return _submit_group(arrays, [None] * len(arrays), name, op, scales, process_set)


def grouped_allreduce_async_(
    arrays: Sequence[np.ndarray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`grouped_allreduce_` and returns at once."""
    op, scales = resolve_op(average, op), (prescale_factor, postscale_factor)
    return _submit_group(arrays, [target(array, name) for array in arrays], name, op, scales, process_set)


def grouped_allreduce(
    arrays: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[np.ndarray]:
    """:func:`allreduce` of several arrays that run together or not at all; a list of new arrays.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.grouped_allreduce([np.ones(1), np.zeros(2)], name="layers")
    [array([1.]), array([0., 0.])]
    """
    return grouped_allreduce_async(
        arrays, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()


def grouped_allreduce_(
    arrays: Sequence[np.ndarray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[np.ndarray]:
    """:func:`grouped_allreduce` in place; returns the arrays themselves."""
    return grouped_allreduce_async_(
        arrays, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()


# ---- The other operations ---------------------------------------------------------------------------


def allgather_async(
    array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts :func:`allgather` and returns at once."""
    return _first(_submit_sized(ALLGATHER, "allgather", array, name, process_set))


def allgather(
    array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """The ranks' arrays one after the other along the first dimension, which may differ between them.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.allgather(np.full((1, 3), hvd.rank())).shape == (hvd.size(), 3)
    True
    """
    return allgather_async(array, name, process_set).wait()


def broadcast_async(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts :func:`broadcast` and returns at once."""
    return _submit(BROADCAST, "broadcast", array, None, name, process_set, root=root_rank)


def broadcast_async_(
    array: np.ndarray,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`broadcast_` and returns at once."""
    into = target(array, name)
    return _submit(BROADCAST, "broadcast", array, into, name, process_set, root=root_rank)


def broadcast(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> np.ndarray:
    """The array of ``root_rank`` (a rank of the job, not of the set), on every rank. Others give an array of
    the same shape and type.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.broadcast(np.full(2, 10 + hvd.rank()), root_rank=0)
    array([10, 10])
    """
    return broadcast_async(array, root_rank, name, process_set).wait()


def broadcast_(
    array: np.ndarray,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """:func:`broadcast` in place; returns the array itself."""
    return broadcast_async_(array, root_rank, name, process_set).wait()


def alltoall_async(
    array: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`alltoall` and returns at once; gives the rows and the received splits, always."""

    handle = _submit_sized(ALLTOALL, "alltoall", array, name, process_set, splits=splits)
    finish = handle._finish
    assert finish is not None

    def finish_with_array() -> Tuple[np.ndarray, np.ndarray]:
        rows, received = finish()
        return rows, np.array(received, np.int32)

    handle._finish = finish_with_array
    return handle


def alltoall(
    array: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[np.ndarray, Tuple[np.ndarray, np.ndarray]]:
    """Sends ``splits[i]`` rows to rank i of the set and gives the rows received, by rank. With ``splits``
    the result is a pair: the rows, and how many came from each rank; without, rows are dealt evenly.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.alltoall(np.full(hvd.size(), hvd.rank())).tolist() == list(range(hvd.size()))
    True
    """
    rows, received = alltoall_async(array, splits, name, process_set).wait()
    return rows if splits is None else (rows, received)


def reducescatter_async(
    array: Any,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`reducescatter` and returns at once."""
    return _first(
        _submit_sized(
            REDUCESCATTER, "reducescatter", array, name, process_set, op, prescale_factor, postscale_factor
        )
    )


def reducescatter(
    array: Any,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> np.ndarray:
    """Combines like :func:`allreduce` and gives each rank its share of the rows; the first ranks get one
    more where they cannot be dealt evenly.

    >>> import numpy as np, rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.reducescatter(np.ones((hvd.size(), 2)), op=hvd.Sum) / hvd.size()
    array([[1., 1.]])
    """
    return reducescatter_async(array, name, op, prescale_factor, postscale_factor, process_set).wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Blocks until all ranks of the set have called it.

    >>> import rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.barrier()
    """
    _native.barrier(process_set._require_id()).wait()


def join() -> int:
    """Says that this rank has no more data, and blocks until all ranks have said so; the rank that came
    last. Meanwhile this rank gives zeros to what the others average and sum.

    >>> import rueda.numpy as hvd
    >>> hvd.init()
    >>> hvd.join() < hvd.size()
    True
    """
    _native.join().wait()
    return _native.last_joined()
