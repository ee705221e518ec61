"""rueda.tensorflow against NumPy: every operation, eager, in tf.function and in graphs of version 1."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
from ranks import on_ranks
from tensorflow_cases import DTYPES, ENV, FLOATS, MODES, call, check, combined, make_all, split_rows, tf

import rueda.tensorflow as hvd

SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)]
LARGE = 300_001
OPS = [hvd.Sum, hvd.Min, hvd.Max, hvd.Product, hvd.Average, hvd.Adasum]


def ops_of(dtype: str) -> List[int]:
    return OPS if dtype in FLOATS else OPS[:4] if dtype == "bool" else OPS[:5]


@on_ranks(2, long=(1, 3), env=ENV)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce(dtype: str, mode: str) -> None:
    check_allreduce(dtype, mode)


def check_allreduce(dtype: str, mode: str) -> None:
    inputs = [make_all(shape, dtype, i) for i, shape in enumerate(SHAPES)]

    def run(*xs: Any) -> Dict[str, Any]:
        groups = {f"group {op}": hvd.grouped_allreduce(list(xs), op=op) for op in ops_of(dtype)}
        return {**groups, f"single {hvd.Sum}": [hvd.allreduce(x, op=hvd.Sum) for x in xs]}

    for key, results in call(mode, run, *[each[hvd.rank()] for each in inputs]).items():
        op = getattr(hvd, key.split()[1])
        for each, result in zip(inputs, results):
            check(result, combined(each, op), dtype, (key, each[0].shape), slack=hvd.size())


@on_ranks(2, long=(1, 3), env=ENV)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_operations(dtype: str, mode: str) -> None:
    check_other_operations(dtype, mode)


@on_ranks(1, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_operations_of_one_rank_and_of_three(mode: str) -> None:
    """With the types between which the front end makes a difference; the others are told apart by the engine."""
    for dtype in ("float32", "int32"):
        check_allreduce(dtype, mode)
        check_other_operations(dtype, mode)


def check_other_operations(dtype: str, mode: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    uneven = [make_all((r + 1, 2), dtype, r)[r] for r in range(size)]
    inputs = make_all((2 * size + 1, 3), dtype, 9)
    even = make_all((2 * size, 2), dtype, 4)
    parcels = make_all((sum(range(size + 1)), 2), dtype, 5)
    ways = [[(source + i) % size + 1 for i in range(size)] for source in range(size)]
    scatters = dtype != "bool"

    def run(own: Any, whole: Any, halves: Any, parcel: Any) -> Dict[str, Any]:
        results = {
            "allgather": [hvd.allgather(own), *hvd.grouped_allgather([whole, own])],
            "broadcast": [hvd.broadcast(whole, root) for root in (0, size - 1)],
            "splits": hvd.alltoall(parcel, splits=ways[rank]),
            "even": hvd.alltoall(halves),
        }
        if scatters:
            results["scatter"] = [hvd.reducescatter(whole, op=hvd.Sum), *hvd.grouped_reducescatter([whole, halves])]
        return results

    got = call(mode, run, uneven[rank], inputs[rank], even[rank], parcels[rank])
    for result, wanted in zip(got["allgather"], [uneven, inputs, uneven]):
        check(result, np.concatenate(wanted), dtype, "allgather")
    for result, root in zip(got["broadcast"], (0, size - 1)):
        check(result, inputs[root], dtype, "broadcast")
    starts = [sum(ways[source][:rank]) for source in range(size)]
    received = [parcels[s][starts[s] : starts[s] + ways[s][rank]] for s in range(size)]
    check(got["splits"][0], np.concatenate(received), dtype, "alltoall")
    assert got["splits"][1].tolist() == [ways[source][rank] for source in range(size)]
    check(got["even"], np.concatenate([e[2 * rank : 2 * rank + 2] for e in even]), dtype, "alltoall, even")
    for result, (each, op) in zip(
        got.get("scatter", []), [(inputs, hvd.Sum), (inputs, hvd.Average), (even, hvd.Average)]
    ):
        share = np.split(combined(each, op), split_rows(len(each[0])))[rank]
        check(result, share, dtype, ("reducescatter", op), slack=size)


@on_ranks(2, long=[3], env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_large_tensors(mode: str) -> None:
    inputs = make_all((LARGE,), "float32")
    splits = split_rows(LARGE)

    def run(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x), hvd.broadcast(x, 1), hvd.reducescatter(x, op=hvd.Sum)

    total, everyone, second, share = call(mode, run, inputs[hvd.rank()])
    wanted = combined(inputs, hvd.Sum)
    check(total, wanted, "float32")
    check(everyone, np.concatenate(inputs), "float32")
    check(second, inputs[1], "float32")
    check(share, np.split(wanted, splits)[hvd.rank()], "float32")


@on_ranks(2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_scales_and_compression(mode: str) -> None:
    whole, broken = make_all((9,), "int32", 1), make_all((9,), "float32", 2)
    compressions = {"float16": hvd.Compression.fp16, "bfloat16": hvd.Compression.bf16}

    def run(i: Any, x: Any) -> Dict[str, Any]:
        scales = {"prescale_factor": 2.5, "postscale_factor": 0.5}
        return {
            "int32": hvd.allreduce(i, op=hvd.Sum, **scales),
            "float32": hvd.allreduce(x, op=hvd.Average, **scales),
            "group": hvd.grouped_allreduce([x, 2 * x], op=hvd.Max, **scales),
            "scatter": hvd.reducescatter(x, op=hvd.Sum, **scales),
            **{name: hvd.allreduce(x, op=hvd.Sum, compression=each) for name, each in compressions.items()},
            "whole": hvd.allreduce(i, op=hvd.Sum, compression=hvd.Compression.fp16),
        }

    got = call(mode, run, whole[hvd.rank()], broken[hvd.rank()])
    check(got["int32"], combined(whole, hvd.Sum, 2.5, 0.5), "int32")
    check(got["float32"], combined(broken, hvd.Average, 2.5, 0.5), "float32", slack=4)
    check(got["group"][1], combined([2 * each for each in broken], hvd.Max, 2.5, 0.5), "float32", slack=4)
    share = np.split(combined(broken, hvd.Sum, 2.5, 0.5), split_rows(9))[hvd.rank()]
    check(got["scatter"], share, "float32", slack=4)
    for name in compressions:
        np.testing.assert_allclose(got[name], combined(broken, hvd.Sum), rtol=1e-2 * hvd.size())
        assert got[name].dtype == np.float32
    check(got["whole"], combined(whole, hvd.Sum), "int32")


def dense(slices: Any, rows: int) -> Any:
    return tf.scatter_nd(tf.cast(slices.indices, tf.int64)[:, None], slices.values, tf.constant([rows, 2], tf.int64))


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_slices(mode: str) -> None:
    """Of a table with 5 rows every rank has some, also one twice; rank r has r + 1 of them."""
    rank, size = hvd.rank(), hvd.size()
    values = [make_all((r + 1, 2), "float32", 3)[r] for r in range(size)]
    indices = [(np.arange(r + 1) * 2) % 5 for r in range(size)]
    wanted = np.zeros((size, 5, 2))
    for r in range(size):
        np.add.at(wanted[r], indices[r], values[r])

    def run(value: Any, index: Any) -> Any:
        slices = tf.IndexedSlices(value, index, tf.constant([5, 2], tf.int64))
        total = hvd.allreduce(slices, op=hvd.Sum, prescale_factor=2.0)
        mixed = hvd.grouped_allreduce([slices, value[:1]], op=hvd.Average)
        adasum = hvd.allreduce(slices, op=hvd.Adasum)
        assert isinstance(total, tf.IndexedSlices) and isinstance(mixed[0], tf.IndexedSlices)
        return dense(total, 5), dense(mixed[0], 5), mixed[1], adasum, tf.shape(total.values)

    total, mean, first, adasum, shape = call(mode, run, values[rank], indices[rank])
    check(total, 2 * wanted.sum(0), "float32", slack=size)
    check(mean, wanted.mean(0), "float32", slack=size)
    check(first, combined([each[:1] for each in values], hvd.Average), "float32", slack=size)
    check(adasum, combined([each.astype(np.float32) for each in wanted], hvd.Adasum), "float32", slack=4 * size)
    assert shape.tolist() == [sum(range(1, size + 1)), 2]
    with pytest.raises(NotImplementedError, match="sparse_as_dense"):
        hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [0]), op=hvd.Max)
    whole = hvd.allreduce(tf.IndexedSlices(tf.constant([[1 + 2 * hvd.rank()]]), [0]))
    wanted = [[(1 + 2 * rank) / hvd.size()] for rank in range(hvd.size())]
    assert whole.values.dtype == tf.float64  # whole numbers would lose their halves
    np.testing.assert_allclose(whole.values.numpy(), wanted, rtol=1e-15)


@on_ranks(3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_process_sets(mode: str) -> None:
    pair = hvd.add_process_set([0, 2])
    inputs = make_all((4, 2), "float32", 7)
    members = [inputs[0], inputs[2]]

    def run(x: Any) -> Any:
        return (
            hvd.allreduce(x, op=hvd.Sum, process_set=pair),
            hvd.allgather(x, process_set=pair),
            hvd.broadcast(x, 2, process_set=pair),
            hvd.alltoall(x, process_set=pair),
            hvd.reducescatter(x, op=hvd.Average, process_set=pair),
        )

    if pair.included():
        total, everyone, second, swapped, share = call(mode, run, inputs[hvd.rank()])
        place = pair.rank()
        rows = slice(2 * place, 2 * place + 2)
        check(total, combined(members, hvd.Sum), "float32")
        check(everyone, np.concatenate(members), "float32")
        check(second, inputs[2], "float32")
        check(swapped, np.concatenate([each[rows] for each in members]), "float32")
        check(share, combined(members, hvd.Average)[rows], "float32")
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
            call(mode, lambda x: hvd.allreduce(x, process_set=pair), inputs[1])
    hvd.barrier()


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_broadcast_into_variables(mode: str) -> None:
    root = hvd.size() - 1
    values = [make_all((3,), "float32", 1), make_all((), "int64", 2)]
    if mode == "v1":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = [
                tf.compat.v1.Variable(each[hvd.rank()], use_resource=kind) for each, kind in zip(values, (True, False))
            ]
            spread = hvd.broadcast_variables(variables, root)
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(spread)
            got = session.run(variables)
    else:
        variables = [tf.Variable(each[hvd.rank()]) for each in values]
        spread = hvd.broadcast_ if mode == "eager" else tf.function(hvd.broadcast_)
        spread(variables, root)
        got = [variable.numpy() for variable in variables]
    for each, result, dtype in zip(values, got, ["float32", "int64"]):
        check(result, each[root], dtype)


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_join_gives_zeros(mode: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    inputs = make_all((5,), "float32")
    if rank < size - 1:
        last = hvd.join() if mode == "eager" else int(call(mode, hvd.join))
    else:
        totals = call(mode, lambda x: [hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x)], inputs[rank])
        check(totals[0], inputs[rank], "float32")
        check(totals[1], inputs[rank].astype(np.float64) / size, "float32")
        last = hvd.join()
    assert last == size - 1


@on_ranks(1, 2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_numbers_are_asked_when_a_graph_runs(mode: str) -> None:
    ask: Callable[[], Any] = lambda: (  # noqa: E731
        hvd.rank_op(),
        hvd.size_op(),
        hvd.local_rank_op(),
        hvd.local_size_op(),
        hvd.process_set_included_op(),
        hvd.process_set_included_op(9),
    )
    wanted = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.size(), 1, -1]
    assert [int(number) for number in call(mode, ask)] == wanted


@on_ranks(2, env=ENV)
def test_shapes_are_known_in_a_graph() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 4]), tf.TensorSpec([3, 4]), tf.TensorSpec(None)])
    def trace(some: Any, known: Any, unknown: Any) -> None:
        for same in (hvd.allreduce, lambda x: hvd.broadcast(x, 0), lambda x: hvd.grouped_allreduce([x, x])[1]):
            assert same(some).shape.as_list() == [None, 4]
            assert same(known).shape.as_list() == [3, 4]
            assert same(unknown).shape.rank is None
        for rows in (hvd.allgather, hvd.alltoall, hvd.reducescatter, lambda x: hvd.alltoall(x, splits=[1, 2])[0]):
            assert rows(known).shape.as_list() == [None, 4]
            assert rows(unknown).shape.rank is None
        assert hvd.size_op().shape.as_list() == [] and hvd.allreduce(tf.constant(1.0)).shape.as_list() == []

    trace.get_concrete_function()


@on_ranks(1, env=ENV)
def test_no_other_framework_is_imported() -> None:
    """Each costs seconds in every rank."""
    assert "torch" not in sys.modules and "jax" not in sys.modules
