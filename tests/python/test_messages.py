"""send and recv of rueda.numpy and rueda.torch: every rank makes what the others send by itself."""

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


def values(rank: int, dtype: Any, shape: Any) -> Any:
    return np.asarray(np.random.default_rng(rank).integers(0, 2, shape) * 3, dtype)


def before() -> int:
    return (hvd.rank() - 1) % hvd.size()


def behind() -> int:
    return (hvd.rank() + 1) % hvd.size()


@everywhere
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (101, 33), (200, 1000)], ids=str)
def test_tensors_go_around(dtype: str, shape: Any) -> None:
    sent = hvd.send_async(values(hvd.rank(), dtype, shape), behind(), "around")
    like = np.empty(shape, dtype)
    got = hvd.recv(like, before(), "around")
    assert got is not like and got.dtype == like.dtype and got.shape == like.shape
    np.testing.assert_array_equal(got, values(before(), dtype, shape))
    assert hvd.synchronize(sent) is None


@everywhere
def test_a_receive_in_place_fills_the_array_itself() -> None:
    sent = hvd.send_async(values(hvd.rank(), float, (7, 3)), behind())
    whole = np.zeros((7, 6))
    array = whole[:, ::2]
    assert hvd.recv_(array, before()) is array
    np.testing.assert_array_equal(whole[:, ::2], values(before(), float, (7, 3)))
    assert not whole[:, 1::2].any()
    sent.wait()
    with pytest.raises(ValueError, match="only a writable"):
        hvd.recv_([1, 2], before())


@on_ranks(3)
def test_a_receive_from_anyone_tells_the_rank() -> None:
    if hvd.rank() == 0:
        got = [hvd.recv_any(np.empty(2, int), "any") for _ in range(4)]
        assert sorted(rank for _, rank in got) == [1, 1, 2, 2]
        for array, rank in got:
            np.testing.assert_array_equal(array, [rank, 7])
    else:
        handles = [hvd.send_async(np.array([hvd.rank(), 7]), 0, "any") for _ in range(2)]
        for handle in handles:
            handle.wait()


@on_ranks(2)
def test_both_ranks_hear_what_differs() -> None:
    sentence = r"rank 0 sends float64 \[3\] and rank 1 receives float64 \[4\]"
    with pytest.raises(RuedaError, match=sentence):
        if hvd.rank() == 0:
            hvd.send(np.zeros(3), 1, "differs")
        else:
            hvd.recv(np.zeros(4), 0, "differs")
    with pytest.raises(ValueError, match="rank 9 is not a rank of process set 0"):
        hvd.send(np.zeros(3), 9)
    with pytest.raises(TimeoutError):
        hvd.recv_async(np.zeros(3), 1 - hvd.rank(), "never").wait(0.01)


@everywhere
def test_torch_tensors_go_around() -> None:
    torch = pytest.importorskip("torch")
    import rueda.torch as other

    tensor = torch.full((4, 3), float(hvd.rank()), dtype=torch.bfloat16)
    sent = other.send_async(tensor.t(), behind(), "torch")
    got = other.recv(torch.empty(3, 4, dtype=torch.bfloat16), before(), "torch")
    assert torch.equal(got, torch.full((3, 4), float(before()), dtype=torch.bfloat16))
    sent.wait()
    sent = other.send_async(torch.arange(6), behind(), "in place")
    into = torch.zeros(3, 2, dtype=torch.int64).t().contiguous().t().reshape(-1)
    assert other.recv_(into, before(), "in place") is into
    assert into.tolist() == list(range(6))
    sent.wait()
    sent = other.send_async(torch.ones(()), behind(), "any")
    one, rank = other.recv_any(torch.zeros(()), "any")
    assert one.item() == 1 and rank == before()
    sent.wait()


@on_ranks(1)
def test_the_examples_of_the_documentation() -> None:
    module = importlib.import_module("rueda._messages")
    failed, tried = doctest.testmod(module)
    assert tried > 0 and failed == 0
