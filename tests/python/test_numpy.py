"""rueda.numpy against NumPy: every rank makes the inputs of all ranks by itself and knows what must come
out."""

from __future__ import annotations

import doctest
import gc
import importlib
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import rueda.numpy as hvd
from adasum import adasum
from ranks import on_ranks
from rueda.exceptions import RuedaError

try:
    import ml_dtypes

    BF16 = [np.dtype(ml_dtypes.bfloat16)]
except ImportError:
    BF16 = []

INTEGERS = [np.dtype(t) for t in ("uint8", "int8", "uint16", "int16", "int32", "int64")]
FLOATS = [np.dtype(t) for t in ("float16", "float32", "float64")] + BF16
ALL = [np.dtype(bool)] + INTEGERS + FLOATS
PRECISION = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}
everywhere = on_ranks(1, 2, 3, 4)


def values(rank: int, dtype: Any, shape: Any = (3, 5)) -> Any:
    """Small numbers of a rank, so that sums and products fit every type."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(rank)
    if dtype == bool:
        return np.asarray(random.integers(0, 2, shape), bool)
    low = 0 if dtype.kind == "u" else -3
    whole = random.integers(low, 4, shape)
    return np.asarray(whole if dtype in INTEGERS else whole + random.random(shape), dtype)


def everyone(dtype: Any, shape: Any = (3, 5)) -> Any:
    return np.stack([values(rank, dtype, shape) for rank in range(hvd.size())])


def same(actual: Any, expected: Any, dtype: Any) -> None:
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.dtype(dtype)
    assert actual.shape == expected.shape
    tolerance = PRECISION.get(np.dtype(dtype).name, 0) * 8
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


def wide(array: Any) -> Any:
    return array if array.dtype == bool else array.astype(np.float64)


# ---- allreduce --------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_allreduce(dtype: Any, op: str) -> None:
    if dtype == bool and op == "Average":
        with pytest.raises(ValueError):
            hvd.allreduce(values(hvd.rank(), dtype), op=hvd.Average)
        return
    inputs = wide(everyone(dtype))
    expected = {
        "Sum": lambda: inputs.any(0) if dtype == bool else inputs.sum(0),
        "Average": lambda: np.trunc(inputs.mean(0)) if dtype in INTEGERS else inputs.mean(0),
        "Min": lambda: inputs.min(0),
        "Max": lambda: inputs.max(0),
        "Product": lambda: inputs.prod(0),
    }[op]()
    same(hvd.allreduce(values(hvd.rank(), dtype), op=getattr(hvd, op)), expected, dtype)


@everywhere
def test_average_is_the_default() -> None:
    same(hvd.allreduce(values(hvd.rank(), "float64")), everyone("float64").mean(0), "float64")


@everywhere
def test_an_array_twice_in_a_group_in_place() -> None:
    mine = values(hvd.rank(), "float64")
    first, second = hvd.grouped_allreduce_([mine, mine], op=hvd.Sum)
    assert first is mine and second is mine
    same(mine, everyone("float64").sum(0), "float64")


@everywhere
def test_gathers_and_scatters_of_a_list() -> None:
    rank, size = hvd.rank(), hvd.size()
    ones, rows = hvd.grouped_allgather([np.full(rank + 1, rank), np.full((1, 2), rank)], name="list")
    same(ones, np.repeat(np.arange(size), np.arange(size) + 1), "int64")
    same(rows, np.repeat(np.arange(size), 2).reshape(size, 2), "int64")
    shares = hvd.grouped_reducescatter([np.arange(size) + rank, np.ones((size, 2))], op=hvd.Sum)
    same(shares[0], np.array([size * rank + sum(range(size))]), "int64")
    same(shares[1], np.full((1, 2), size), "float64")


@on_ranks(1)
def test_splits_are_whole_numbers_one_for_each_rank() -> None:
    for splits in ([1.5], [[2]], np.array([2.5]), np.array([[2]]), np.array(2)):
        with pytest.raises(ValueError, match="alltoall of rows: splits must be whole numbers"):
            hvd.alltoall(np.ones(2), splits=splits, name="rows")
    with pytest.raises(ValueError, match="alltoall of rows: 2 splits for 1 ranks"):
        hvd.alltoall(np.ones(2), splits=[1, 1], name="rows")
    assert hvd.alltoall(np.ones(2), splits=np.array([2]))[1].tolist() == [2]


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_scales(dtype: Any) -> None:
    inputs = everyone(dtype).astype(np.float64) * 2
    result = hvd.allreduce(values(hvd.rank(), dtype), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
    same(result, inputs.sum(0) * 3, dtype)


@everywhere
def test_adasum_is_a_binary_tree() -> None:
    wanted = adasum(everyone("float64"))
    same(hvd.allreduce(values(hvd.rank(), "float64"), op=hvd.Adasum), wanted, "float64")


@everywhere
def test_adasum_averages_parallel_arrays_over_all_that_have_something() -> None:
    factors = np.array([1.0, 2.0, 4.0, 0.0])[: hvd.size()]
    mean = factors.sum() / np.count_nonzero(factors)
    array = values(0, "float64")
    same(hvd.allreduce(factors[hvd.rank()] * array, op=hvd.Adasum), mean * array, "float64")


@everywhere
def test_in_place_changes_the_array_itself() -> None:
    array = values(hvd.rank(), "float32")
    assert hvd.allreduce_(array, op=hvd.Sum, name="here") is array
    same(array, everyone("float32").sum(0), "float32")
    untouched = values(hvd.rank(), "float32")
    hvd.allreduce(untouched, op=hvd.Sum)
    same(untouched, values(hvd.rank(), "float32"), "float32")


@everywhere
def test_group() -> None:
    shapes = [(2, 3), (7,), (), (0, 4)]
    arrays = [values(hvd.rank(), "float32", shape) for shape in shapes]
    results = hvd.grouped_allreduce(arrays, op=hvd.Sum, name="group")
    for result, shape in zip(results, shapes):
        same(result, everyone("float32", shape).sum(0), "float32")
    assert all(a is b for a, b in zip(hvd.grouped_allreduce_(arrays, name="group_"), arrays))
    same(arrays[0], everyone("float32", shapes[0]).mean(0), "float32")
    assert hvd.grouped_allreduce([]) == []
    for _ in range(2):
        assert hvd.grouped_allreduce([1.0, 2.0]) == [1.0, 2.0]


# ---- Arrays of every kind ---------------------------------------------------------------------------


@everywhere
def test_strided_arrays() -> None:
    inputs = everyone("float64", (4, 6))
    mine = values(hvd.rank(), "float64", (4, 6))
    same(hvd.allreduce(mine.T, op=hvd.Sum), inputs.sum(0).T, "float64")
    same(hvd.allreduce(mine[::2, 1::2], op=hvd.Sum), inputs.sum(0)[::2, 1::2], "float64")
    same(hvd.allreduce(mine[::-1], op=hvd.Sum), inputs.sum(0)[::-1], "float64")
    part = mine[:, ::3]
    assert hvd.allreduce_(part, op=hvd.Sum) is part
    same(mine[:, ::3], inputs.sum(0)[:, ::3], "float64")
    same(mine[:, 1], inputs[hvd.rank()][:, 1], "float64")
    same(hvd.allgather(inputs[hvd.rank()].T), np.concatenate([each.T for each in inputs]), "float64")


@everywhere
def test_scalars_and_lists() -> None:
    result = hvd.allreduce(np.float64(hvd.rank()), op=hvd.Sum)
    assert result.shape == () and result == hvd.size() * (hvd.size() - 1) / 2
    assert hvd.allreduce(hvd.rank(), op=hvd.Max) == hvd.size() - 1
    assert hvd.allreduce([[1.5, 2.5]]).tolist() == [[1.5, 2.5]]


@everywhere
def test_empty_arrays() -> None:
    assert hvd.allreduce(np.empty((0, 3), np.float32)).shape == (0, 3)
    assert hvd.allgather(np.empty((0, 3), np.int64)).shape == (0, 3)
    assert hvd.broadcast(np.empty(0), 0).shape == (0,)
    assert hvd.allgather(np.ones((hvd.rank(), 2))).shape == (hvd.size() * (hvd.size() - 1) // 2, 2)


@everywhere
def test_the_other_byte_order() -> None:
    result = hvd.allreduce(values(hvd.rank(), "float32").astype(">f4"), op=hvd.Sum)
    same(result, everyone("float32").sum(0), "float32")
    array = values(hvd.rank(), "int32").astype(">i4")
    hvd.allreduce_(array, op=hvd.Sum)
    assert array.dtype == ">i4" and (array == everyone("int32").sum(0)).all()


@everywhere
def test_types_that_cannot_be_combined_are_named() -> None:
    for bad in (np.ones(2, np.uint32), np.ones(2, complex), np.array(["a"]), np.array([None])):
        with pytest.raises(ValueError, match=f"weights: {bad.dtype.name} cannot be combined"):
            hvd.allreduce(bad, name="weights")


@everywhere
def test_only_writable_arrays_in_place() -> None:
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for bad in (frozen, [1.0], 2.0):
        with pytest.raises(ValueError, match="writable"):
            hvd.allreduce_(bad)
    assert hvd.allreduce(frozen).tolist() == [1, 1, 1]


@everywhere
def test_results_can_be_written() -> None:
    for result in (hvd.allreduce(np.ones(3)), hvd.allgather(np.ones(3)), hvd.alltoall(np.ones(hvd.size()))):
        result += 1
        assert (result == 2).all()


# ---- The other operations ---------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_allgather(dtype: Any) -> None:
    expected = np.concatenate([values(rank, dtype, (rank + 1, 2)) for rank in range(hvd.size())])
    same(hvd.allgather(values(hvd.rank(), dtype, (hvd.rank() + 1, 2))), expected, dtype)


@everywhere
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_broadcast(dtype: Any) -> None:
    root = hvd.size() - 1
    same(hvd.broadcast(values(hvd.rank(), dtype), root), values(root, dtype), dtype)
    array = values(hvd.rank(), dtype)
    assert hvd.broadcast_(array, root) is array
    same(array, values(root, dtype), dtype)


@everywhere
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_alltoall(dtype: Any) -> None:
    rows = np.concatenate([values(hvd.rank(), dtype, (to + 1, 2)) for to in range(hvd.size())])
    result, received = hvd.alltoall(rows, splits=[to + 1 for to in range(hvd.size())])
    same(result, np.concatenate([values(rank, dtype, (hvd.rank() + 1, 2)) for rank in range(hvd.size())]), dtype)
    assert received.tolist() == [hvd.rank() + 1] * hvd.size()
    even = hvd.alltoall(np.repeat(values(hvd.rank(), dtype, (1, 2)), hvd.size(), axis=0))
    same(even, np.concatenate([values(rank, dtype, (1, 2)) for rank in range(hvd.size())]), dtype)


@everywhere
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_reducescatter(dtype: Any, rows: int) -> None:
    total = everyone(dtype, (rows, 2)).astype(np.float64).sum(0)
    share, more = divmod(rows, hvd.size())
    start = hvd.rank() * share + min(hvd.rank(), more)
    expected = total[start : start + share + (hvd.rank() < more)]
    same(hvd.reducescatter(values(hvd.rank(), dtype, (rows, 2)), op=hvd.Sum), expected, dtype)


@everywhere
def test_objects() -> None:
    objects = [{"rank": rank, "text": "x" * 1000 * rank} for rank in range(hvd.size())]
    assert hvd.allgather_object(objects[hvd.rank()]) == objects
    assert hvd.broadcast_object(objects[hvd.rank()], root_rank=hvd.size() - 1) == objects[-1]


@everywhere
def test_barrier_and_join() -> None:
    hvd.barrier()
    for _ in range(hvd.rank()):
        hvd.allreduce(np.ones(2), name="uneven")
    assert 0 <= hvd.join() < hvd.size()
    hvd.barrier()


# ---- Handles, sets, errors --------------------------------------------------------------------------


@everywhere
def test_handles_in_any_order() -> None:
    order = range(5) if hvd.rank() % 2 == 0 else reversed(range(5))
    handles = {i: hvd.allreduce_async(np.full(4, float(i)), op=hvd.Sum, name=f"t{i}") for i in order}
    for i, handle in handles.items():
        assert (hvd.synchronize(handle) == i * hvd.size()).all()
        assert hvd.poll(handle) and hvd.synchronize(handle) is hvd.synchronize(handle)
    array = np.ones(3)
    assert hvd.synchronize(hvd.broadcast_async_(array, 0)) is array
    rows, received = hvd.synchronize(hvd.alltoall_async(np.ones(hvd.size())))
    assert received.tolist() == [1] * hvd.size()


@everywhere
def test_dropped_handles_keep_their_arrays() -> None:
    for i in range(20):
        hvd.allreduce_async(np.full(100_000, float(i)), name=f"dropped{i}")
        gc.collect()
    assert hvd.allreduce(np.ones(1), name="after") == 1


@on_ranks(3, 4)
def test_process_sets() -> None:
    ends = hvd.add_process_set([0, hvd.size() - 1])
    if ends.included():
        result = hvd.allreduce(values(hvd.rank(), "float64"), op=hvd.Sum, process_set=ends)
        same(result, values(0, "float64") + values(hvd.size() - 1, "float64"), "float64")
        assert hvd.allgather(np.array([hvd.rank()]), process_set=ends).tolist() == [0, hvd.size() - 1]
        assert hvd.broadcast(np.array([hvd.rank()]), hvd.size() - 1, process_set=ends) == hvd.size() - 1
        assert hvd.allgather_object(hvd.rank(), process_set=ends) == [0, hvd.size() - 1]
        hvd.barrier(ends)
    else:
        with pytest.raises(ValueError):
            hvd.allreduce(np.ones(1), process_set=ends)
    hvd.remove_process_set(ends)


@on_ranks(2, 3, 4)
def test_disagreement_is_told_to_all() -> None:
    with pytest.raises(RuedaError, match="wrong"):
        hvd.allreduce(np.ones(3 + hvd.rank()), name="wrong")
    with pytest.raises(RuedaError):
        hvd.broadcast(np.ones(2), root_rank=hvd.rank(), name="roots")
    assert hvd.allreduce(np.ones(1)) == 1


@on_ranks(2, 3, 4)
def test_a_name_in_flight_is_refused() -> None:
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(np.ones(1), name="twice")
        with pytest.raises(ValueError):
            hvd.allreduce_async(np.ones(1), name="twice")
        hvd.barrier()
        hvd.synchronize(handle)
    else:
        hvd.barrier()
        hvd.allreduce(np.ones(1), name="twice")


@on_ranks(1, 2)
@pytest.mark.parametrize("module", ["rueda._basics", "rueda._calls", "rueda._operations", "rueda._process_sets"])
def test_examples_of_the_docstrings_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@on_ranks(2, 3)
def test_what_the_documentation_shows_works() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "python.md"
    example = next(part for part in page.read_text().split("```python\n") if part.startswith("import numpy"))
    exec(example.partition("```")[0], {})
