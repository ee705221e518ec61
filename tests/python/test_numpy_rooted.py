"""reduce, gather and scatter of rueda.numpy against NumPy: every rank makes the inputs of all ranks by itself and
knows what must come out."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import rueda.numpy as hvd
from ranks import on_ranks
from rueda.exceptions import RuedaError

everywhere = on_ranks(1, 2, 3, 4)
REDUCTIONS = {"Sum": np.sum, "Average": np.mean, "Min": np.min, "Max": np.max, "Product": np.prod}


def values(rank: int, dtype: Any, shape: Any) -> Any:
    """Small whole numbers: their sums, products and averages of up to four ranks are exact in every type."""
    return np.asarray(np.random.default_rng(rank).integers(1, 3, shape) * 12, dtype)


@everywhere
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("op", sorted(REDUCTIONS))
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (101, 33)], ids=str)
def test_reduce_gives_the_result_to_the_root_alone(dtype: str, op: str, shape: Any) -> None:
    everyone = np.stack([values(rank, dtype, shape) for rank in range(hvd.size())])
    for root in range(hvd.size()):
        mine = values(hvd.rank(), dtype, shape)
        result = hvd.reduce(mine, root, op=getattr(hvd, op))
        np.testing.assert_array_equal(mine, values(hvd.rank(), dtype, shape))
        if hvd.rank() != root:
            assert result is None
            continue
        assert result is not None and result.dtype == np.dtype(dtype) and result.shape == shape
        np.testing.assert_allclose(result, REDUCTIONS[op](everyone, axis=0), rtol=1e-6)


@everywhere
def test_reduce_scales_and_has_a_handle() -> None:
    handle = hvd.reduce_async(np.full(4, 2.0), hvd.size() - 1, "scaled", hvd.Sum, 0.5, 3.0)
    result = hvd.synchronize(handle)
    if hvd.rank() == hvd.size() - 1:
        np.testing.assert_array_equal(result, np.full(4, 3.0 * hvd.size()))
    else:
        assert result is None


@everywhere
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
def test_gather_joins_differing_first_dimensions(dtype: str) -> None:
    for root in range(hvd.size()):
        result = hvd.gather(values(hvd.rank(), dtype, (2 * hvd.rank(), 3)), root)
        if hvd.rank() == root:
            expected = [values(rank, dtype, (2 * rank, 3)) for rank in range(hvd.size())]
            np.testing.assert_array_equal(result, np.concatenate(expected))
        else:
            assert result is None


@everywhere
@pytest.mark.parametrize("rows", [0, 1, 3, 10])
def test_scatter_without_splits_is_as_even_as_can_be(rows: int) -> None:
    for root in range(hvd.size()):
        whole = values(7, "float32", (rows, 5))
        mine = hvd.scatter(whole if hvd.rank() == root else whole[:0], root)
        np.testing.assert_array_equal(mine, np.array_split(whole, hvd.size())[hvd.rank()])


@everywhere
def test_scatter_follows_the_splits_of_the_root() -> None:
    splits = [3 * rank for rank in range(hvd.size())]
    whole = values(3, "int32", (sum(splits), 2))
    for root in range(hvd.size()):
        is_root = hvd.rank() == root
        mine = hvd.scatter(whole if is_root else np.empty((9, 2), "int32"), root, splits if is_root else None)
        np.testing.assert_array_equal(mine, np.split(whole, np.cumsum(splits)[:-1])[hvd.rank()])


@on_ranks(3)
def test_in_a_process_set() -> None:
    members = hvd.add_process_set([0, 2])
    if members.included():
        result = hvd.reduce(np.full(2, hvd.rank() + 1), 2, op=hvd.Sum, process_set=members)
        assert (result is None) == (hvd.rank() == 0)
        assert result is None or result.tolist() == [4, 4]
        with pytest.raises(ValueError, match="root 1 is not a rank of process set"):
            hvd.gather(np.ones(1), 1, process_set=members)
    hvd.remove_process_set(members)


@on_ranks(2)
def test_disagreements_are_told() -> None:
    with pytest.raises(RuedaError, match="Mismatched REDUCE root ranks"):
        hvd.reduce(np.ones(2), hvd.rank(), name="roots")
    with pytest.raises(RuedaError, match="Mismatched SCATTER tensor shapes"):
        hvd.scatter(np.ones((2, 2 + hvd.rank())), 0, name="widths")
    with pytest.raises(NotImplementedError, match="reduce has no Adasum"):
        hvd.reduce(np.ones(2), 0, op=hvd.Adasum)
    with pytest.raises(ValueError, match="is none of"):
        hvd.reduce(np.ones(2), 0, op=77)
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="add up to"):
            hvd.scatter(np.ones((3, 1)), 0, [1, 1])
    hvd.barrier()


@on_ranks(1)
def test_the_examples_of_the_documentation() -> None:
    module = importlib.import_module("rueda._rooted")
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0
