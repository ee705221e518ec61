"""What rueda.numpy computes, against NumPy: every rank makes the inputs of all ranks by itself and knows
what must come out. Runs on any number of ranks, see test_numpy.py."""

import gc

import numpy as np
import pytest

import rueda.numpy as hvd
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

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def values(rank, dtype, shape=(3, 5)):
    """Small numbers of a rank, so that sums and products fit every type."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(rank)
    if dtype == bool:
        return np.asarray(random.integers(0, 2, shape), bool)
    low = 0 if dtype.kind == "u" else -3
    whole = random.integers(low, 4, shape)
    return np.asarray(whole if dtype in INTEGERS else whole + random.random(shape), dtype)


def everyone(dtype, shape=(3, 5)):
    return np.stack([values(rank, dtype, shape) for rank in range(SIZE)])


def same(actual, expected, dtype):
    assert isinstance(actual, np.ndarray)
    assert actual.dtype == np.dtype(dtype)
    assert actual.shape == expected.shape
    tolerance = PRECISION.get(np.dtype(dtype).name, 0) * 8
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


def wide(array):
    return array if array.dtype == bool else array.astype(np.float64)


# ---- allreduce --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("op", ["Sum", "Average", "Min", "Max", "Product"])
def test_allreduce(dtype, op):
    if dtype == bool and op == "Average":
        with pytest.raises(ValueError):
            hvd.allreduce(values(RANK, dtype), op=hvd.Average)
        return
    inputs = wide(everyone(dtype))
    expected = {
        "Sum": lambda: inputs.any(0) if dtype == bool else inputs.sum(0),
        "Average": lambda: np.trunc(inputs.mean(0)) if dtype in INTEGERS else inputs.mean(0),
        "Min": lambda: inputs.min(0),
        "Max": lambda: inputs.max(0),
        "Product": lambda: inputs.prod(0),
    }[op]()
    same(hvd.allreduce(values(RANK, dtype), op=getattr(hvd, op)), expected, dtype)


def test_average_is_the_default_and_has_two_names():
    inputs = everyone("float64")
    mine = values(RANK, "float64")
    same(hvd.allreduce(mine), inputs.mean(0), "float64")
    same(hvd.allreduce(mine, average=True), inputs.mean(0), "float64")
    same(hvd.allreduce(mine, average=False), inputs.sum(0), "float64")
    with pytest.raises(ValueError, match="op and average"):
        hvd.allreduce(mine, average=True, op=hvd.Sum)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_scales(dtype):
    inputs = everyone(dtype).astype(np.float64) * 2
    result = hvd.allreduce(values(RANK, dtype), op=hvd.Sum, prescale_factor=2.0, postscale_factor=3.0)
    same(result, inputs.sum(0) * 3, dtype)


def adasum(a, b):
    dot, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - dot / (2 * aa)) * a + (1 - dot / (2 * bb)) * b


def test_adasum_is_a_binary_tree():
    level = list(everyone("float64"))
    while len(level) > 1:
        pairs = [adasum(*level[i : i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
        level = pairs
    same(hvd.allreduce(values(RANK, "float64"), op=hvd.Adasum), level[0], "float64")


def test_in_place_changes_the_array_itself():
    array = values(RANK, "float32")
    assert hvd.allreduce_(array, op=hvd.Sum, name="here") is array
    same(array, everyone("float32").sum(0), "float32")
    untouched = values(RANK, "float32")
    hvd.allreduce(untouched, op=hvd.Sum)
    same(untouched, values(RANK, "float32"), "float32")


def test_group():
    shapes = [(2, 3), (7,), (), (0, 4)]
    arrays = [values(RANK, "float32", shape) for shape in shapes]
    results = hvd.grouped_allreduce(arrays, op=hvd.Sum, name="group")
    for result, shape in zip(results, shapes):
        same(result, everyone("float32", shape).sum(0), "float32")
    assert all(a is b for a, b in zip(hvd.grouped_allreduce_(arrays, name="group_"), arrays))
    same(arrays[0], everyone("float32", shapes[0]).mean(0), "float32")
    assert hvd.grouped_allreduce([]) == []


# ---- Arrays of every kind ---------------------------------------------------------------------------


def test_strided_arrays():
    inputs = everyone("float64", (4, 6))
    mine = values(RANK, "float64", (4, 6))
    same(hvd.allreduce(mine.T, op=hvd.Sum), inputs.sum(0).T, "float64")
    same(hvd.allreduce(mine[::2, 1::2], op=hvd.Sum), inputs.sum(0)[::2, 1::2], "float64")
    same(hvd.allreduce(mine[::-1], op=hvd.Sum), inputs.sum(0)[::-1], "float64")
    part = mine[:, ::3]
    assert hvd.allreduce_(part, op=hvd.Sum) is part
    same(mine[:, ::3], inputs.sum(0)[:, ::3], "float64")
    same(mine[:, 1], inputs[RANK][:, 1], "float64")
    same(hvd.allgather(inputs[RANK].T), np.concatenate([each.T for each in inputs]), "float64")


def test_scalars_and_lists():
    result = hvd.allreduce(np.float64(RANK), op=hvd.Sum)
    assert result.shape == () and result == SIZE * (SIZE - 1) / 2
    assert hvd.allreduce(RANK, op=hvd.Max) == SIZE - 1
    assert hvd.allreduce([[1.5, 2.5]]).tolist() == [[1.5, 2.5]]


def test_empty_arrays():
    assert hvd.allreduce(np.empty((0, 3), np.float32)).shape == (0, 3)
    assert hvd.allgather(np.empty((0, 3), np.int64)).shape == (0, 3)
    assert hvd.broadcast(np.empty(0), 0).shape == (0,)
    assert hvd.allgather(np.ones((RANK, 2))).shape == (SIZE * (SIZE - 1) // 2, 2)


def test_the_other_byte_order():
    result = hvd.allreduce(values(RANK, "float32").astype(">f4"), op=hvd.Sum)
    same(result, everyone("float32").sum(0), "float32")
    array = values(RANK, "int32").astype(">i4")
    hvd.allreduce_(array, op=hvd.Sum)
    assert array.dtype == ">i4" and (array == everyone("int32").sum(0)).all()


def test_types_that_cannot_be_combined_are_named():
    for bad in (np.ones(2, np.uint32), np.ones(2, complex), np.array(["a"]), np.array([None])):
        with pytest.raises(ValueError, match=f"weights: {bad.dtype.name} cannot be combined"):
            hvd.allreduce(bad, name="weights")


def test_only_writable_arrays_in_place():
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for bad in (frozen, [1.0], 2.0):
        with pytest.raises(ValueError, match="writable"):
            hvd.allreduce_(bad)
    assert hvd.allreduce(frozen).tolist() == [1, 1, 1]


def test_results_can_be_written():
    for result in (hvd.allreduce(np.ones(3)), hvd.allgather(np.ones(3)), hvd.alltoall(np.ones(SIZE))):
        result += 1
        assert (result == 2).all()


# ---- The other operations ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_allgather(dtype):
    expected = np.concatenate([values(rank, dtype, (rank + 1, 2)) for rank in range(SIZE)])
    same(hvd.allgather(values(RANK, dtype, (RANK + 1, 2))), expected, dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_broadcast(dtype):
    root = SIZE - 1
    same(hvd.broadcast(values(RANK, dtype), root), values(root, dtype), dtype)
    array = values(RANK, dtype)
    assert hvd.broadcast_(array, root) is array
    same(array, values(root, dtype), dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_alltoall(dtype):
    rows = np.concatenate([values(RANK, dtype, (to + 1, 2)) for to in range(SIZE)])
    result, received = hvd.alltoall(rows, splits=[to + 1 for to in range(SIZE)])
    same(result, np.concatenate([values(rank, dtype, (RANK + 1, 2)) for rank in range(SIZE)]), dtype)
    assert received.tolist() == [RANK + 1] * SIZE
    even = hvd.alltoall(np.repeat(values(RANK, dtype, (1, 2)), SIZE, axis=0))
    same(even, np.concatenate([values(rank, dtype, (1, 2)) for rank in range(SIZE)]), dtype)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_reducescatter(dtype, rows):
    total = everyone(dtype, (rows, 2)).astype(np.float64).sum(0)
    share, more = divmod(rows, SIZE)
    start = RANK * share + min(RANK, more)
    expected = total[start : start + share + (RANK < more)]
    same(hvd.reducescatter(values(RANK, dtype, (rows, 2)), op=hvd.Sum), expected, dtype)


def test_objects():
    objects = [{"rank": rank, "text": "x" * 1000 * rank} for rank in range(SIZE)]
    assert hvd.allgather_object(objects[RANK]) == objects
    assert hvd.broadcast_object(objects[RANK], root_rank=SIZE - 1) == objects[-1]


def test_barrier_and_join():
    hvd.barrier()
    for _ in range(RANK):
        hvd.allreduce(np.ones(2), name="uneven")
    assert 0 <= hvd.join() < SIZE
    hvd.barrier()


# ---- Handles, sets, errors --------------------------------------------------------------------------


def test_handles_in_any_order():
    order = range(5) if RANK % 2 == 0 else reversed(range(5))
    handles = {i: hvd.allreduce_async(np.full(4, float(i)), op=hvd.Sum, name=f"t{i}") for i in order}
    for i, handle in handles.items():
        assert (hvd.synchronize(handle) == i * SIZE).all()
        assert hvd.poll(handle) and hvd.synchronize(handle) is hvd.synchronize(handle)
    array = np.ones(3)
    assert hvd.synchronize(hvd.broadcast_async_(array, 0)) is array
    rows, received = hvd.synchronize(hvd.alltoall_async(np.ones(SIZE)))
    assert received.tolist() == [1] * SIZE


def test_dropped_handles_keep_their_arrays():
    for i in range(20):
        hvd.allreduce_async(np.full(100_000, float(i)), name=f"dropped{i}")
        gc.collect()
    assert hvd.allreduce(np.ones(1), name="after") == 1


def test_process_sets():
    if SIZE < 3:
        return
    ends = hvd.add_process_set([0, SIZE - 1])
    if ends.included():
        result = hvd.allreduce(values(RANK, "float64"), op=hvd.Sum, process_set=ends)
        same(result, values(0, "float64") + values(SIZE - 1, "float64"), "float64")
        assert hvd.allgather(np.array([RANK]), process_set=ends).tolist() == [0, SIZE - 1]
        assert hvd.broadcast(np.array([RANK]), SIZE - 1, process_set=ends) == SIZE - 1
        assert hvd.allgather_object(RANK, process_set=ends) == [0, SIZE - 1]
        hvd.barrier(ends)
    else:
        with pytest.raises(ValueError):
            hvd.allreduce(np.ones(1), process_set=ends)
    hvd.remove_process_set(ends)


def test_disagreement_is_told_to_all():
    if SIZE < 2:
        return
    with pytest.raises(RuedaError, match="wrong"):
        hvd.allreduce(np.ones(3 + RANK), name="wrong")
    with pytest.raises(RuedaError):
        hvd.broadcast(np.ones(2), root_rank=RANK, name="roots")
    assert hvd.allreduce(np.ones(1)) == 1


def test_a_name_in_flight_is_refused():
    if SIZE < 2:
        return
    if RANK == 0:
        handle = hvd.allreduce_async(np.ones(1), name="twice")
        with pytest.raises(ValueError):
            hvd.allreduce_async(np.ones(1), name="twice")
        hvd.barrier()
        hvd.synchronize(handle)
    else:
        hvd.barrier()
        hvd.allreduce(np.ones(1), name="twice")
