"""Every operation on tensors against NumPy: every type, odd sizes, all ways to call it."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
import reference as ref
import rueda.torch as hvd
import torch
from ranks import on_ranks
from reference import Adasum, Average, Max, Min, Product, Sum


def ops_of(dtype: torch.dtype) -> List[int]:
    if dtype == torch.bool:
        return [Sum, Min, Max, Product]
    return [Average, Sum, Min, Max, Product] + ([Adasum] if dtype.is_floating_point else [])


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ref.DTYPES, ids=str)
def test_allreduce(dtype: torch.dtype) -> None:
    for op in ops_of(dtype):
        for number, shape in enumerate(ref.SHAPES + ([ref.LARGE] if op in (Sum, Adasum) else [])):
            inputs = ref.make_all(shape, dtype, seed=number)
            wanted, mine = ref.reduce(inputs, op), inputs[hvd.rank()]
            before = mine.clone()
            what = (op, shape)
            ref.check(hvd.allreduce(mine, op=op), wanted, dtype, what)
            ref.check(hvd.synchronize(hvd.allreduce_async(mine, op=op)), wanted, dtype, what)
            assert torch.equal(mine, before)
            in_place = mine.clone()
            assert hvd.allreduce_(in_place, op=op) is in_place
            ref.check(in_place, wanted, dtype, what)
            in_place = mine.clone()
            assert hvd.allreduce_async_(in_place, op=op).wait() is in_place
            ref.check(in_place, wanted, dtype, what)


@on_ranks(2, 3)
@pytest.mark.parametrize("dtype", [dtype for dtype in ref.DTYPES if dtype != torch.bool], ids=str)
def test_scales(dtype: torch.dtype) -> None:
    factor = 3.0 if not dtype.is_floating_point else 0.75
    for op in [Average, Sum, Min, Max]:
        inputs = ref.make_all((5, 3), dtype)
        got = hvd.allreduce(inputs[hvd.rank()], op=op, prescale_factor=factor, postscale_factor=0.5)
        ref.check(got, ref.reduce(inputs, op, factor, 0.5), dtype, op)
        groups = hvd.grouped_allreduce([inputs[hvd.rank()]] * 2, op=op, prescale_factor=factor, postscale_factor=0.5)
        for member in groups:
            ref.check(member, ref.reduce(inputs, op, factor, 0.5), dtype, op)


@on_ranks(1, 2, 3)
def test_grouped_allreduce() -> None:
    kinds = [(shape, dtype) for dtype in ref.FLOATS + [torch.int32] for shape in [(), (0,), (9,), (3, 4)]]
    everyone = [ref.make_all(shape, dtype, seed=i) for i, (shape, dtype) in enumerate(kinds)]
    mine = [inputs[hvd.rank()] for inputs in everyone]
    for op in (Average, Sum, Max):
        calls = [
            hvd.grouped_allreduce(mine, op=op, name=f"group{op}"),
            hvd.grouped_allreduce_async(mine, op=op).wait(),
            hvd.grouped_allreduce_([t.clone() for t in mine], op=op),
            hvd.synchronize(hvd.grouped_allreduce_async_([t.clone() for t in mine], op=op)),
        ]
        for results in calls:
            for got, inputs, (shape, dtype) in zip(results, everyone, kinds):
                ref.check(got, ref.reduce(inputs, op), dtype, (op, shape, dtype))
    assert hvd.grouped_allreduce([]) == []
    assert hvd.grouped_allreduce_async_([]).wait() == []
    targets = [t.clone() for t in mine]
    assert all(a is b for a, b in zip(hvd.grouped_allreduce_(targets, op=Sum), targets))


def strided(tensor: torch.Tensor) -> List[torch.Tensor]:
    """The same values in other layouts."""
    wide = tensor.new_zeros(tensor.shape[0], 2 * tensor.shape[1])
    wide[:, ::2] = tensor
    layouts = [tensor.t().contiguous().t(), wide[:, ::2], torch.cat([tensor, tensor])[: tensor.shape[0]]]
    assert not layouts[0].is_contiguous() and not layouts[1].is_contiguous()
    return layouts


@on_ranks(2, 3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_strided_tensors(dtype: torch.dtype) -> None:
    inputs = ref.make_all((6, 5), dtype)
    wanted = ref.reduce(inputs, Sum)
    for tensor in strided(inputs[hvd.rank()]):
        ref.check(hvd.allreduce(tensor, op=Sum), wanted, dtype)
        ref.check(hvd.allgather(tensor), np.concatenate([ref.to_numpy(t) for t in inputs]), dtype)
        ref.check(hvd.broadcast(tensor, 1), ref.to_numpy(inputs[1]), dtype)
        other = tensor.clone(memory_format=torch.preserve_format)
        ref.check(hvd.grouped_allreduce_([other], op=Sum)[0], wanted, dtype)
        assert hvd.allreduce_(tensor, op=Sum) is tensor
        ref.check(tensor, wanted, dtype)
        assert hvd.broadcast_(tensor, 0) is tensor
    column = inputs[hvd.rank()][:1].expand(6, 5)  # stride 0
    ref.check(hvd.allreduce(column, op=Sum), np.broadcast_to(wanted[:1], (6, 5)), dtype)


@on_ranks(2)
def test_channels_last_and_views() -> None:
    inputs = ref.make_all((2, 3, 4, 5), torch.float32)
    image = inputs[hvd.rank()].to(memory_format=torch.channels_last)
    ref.check(hvd.allreduce(image), ref.reduce(inputs, Average), torch.float32)
    hvd.allreduce_(image)
    ref.check(image, ref.reduce(inputs, Average), torch.float32)
    negated = torch._neg_view(inputs[hvd.rank()].clone())  # lazily
    ref.check(hvd.allreduce(negated), -ref.reduce(inputs, Average), torch.float32)
    flat = torch.zeros(100)
    hvd.allreduce_(flat[10:20].fill_(hvd.rank() + 1.0), op=Sum)
    assert flat.sum() == 30 and flat[9] == 0 and flat[10] == 3


@on_ranks(2)
def test_tensors_that_require_grad() -> None:
    inputs = ref.make_all((3,), torch.float32)
    leaf = torch.nn.Parameter(inputs[hvd.rank()].clone())
    ref.check(hvd.allreduce_async(leaf, op=Sum).wait(), ref.reduce(inputs, Sum), torch.float32)
    assert hvd.allreduce_(leaf, op=Sum) is leaf and leaf.is_leaf
    ref.check(leaf, ref.reduce(inputs, Sum), torch.float32)
    assert hvd.broadcast_(leaf, 0) is leaf
    assert not hvd.allgather_async(leaf).wait().requires_grad
    with torch.no_grad():
        assert not hvd.allreduce(leaf).requires_grad
    assert hvd.allreduce(leaf).requires_grad


class Halving:
    """A compressor of a user."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Any:
        return tensor.to(torch.float64) / 2, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return (tensor * 2).to(context)


@on_ranks(2, 3)
def test_compression() -> None:
    for compression, precision in [
        (hvd.Compression.none, torch.float32),
        (hvd.Compression.fp16, torch.float16),
        (hvd.Compression.bf16, torch.bfloat16),
        (Halving, torch.float32),
    ]:
        inputs = ref.make_all((33,), torch.float32)
        mine = inputs[hvd.rank()]
        got = hvd.allreduce(mine, compression=compression, op=Sum)
        ref.check(got.to(precision), ref.reduce(inputs, Sum), precision)
        assert got.dtype == torch.float32
        member = hvd.grouped_allreduce([mine, mine], compression=compression, op=Sum)[1]
        ref.check(member.to(precision), ref.reduce(inputs, Sum), precision)
        share = hvd.reducescatter(mine, compression=compression, op=Sum)
        ref.check(share.to(precision), ref.reduce(inputs, Sum)[rows_of(33)], precision)
        ref.check(hvd.grouped_reducescatter([mine], compression=compression, op=Sum)[0].to(precision),
                  ref.reduce(inputs, Sum)[rows_of(33)], precision)
    whole = torch.arange(4)
    assert torch.equal(hvd.allreduce(whole, compression=hvd.Compression.fp16, op=Sum), whole * hvd.size())


# ---- The other operations ---------------------------------------------------------------------------


def rows_of(rows: int, rank: int = -1, size: int = 0) -> slice:
    """A rank's share of so many rows."""
    rank, size = (hvd.rank(), hvd.size()) if rank < 0 else (rank, size)
    whole, more = divmod(rows, size)
    start = rank * whole + min(rank, more)
    return slice(start, start + whole + (rank < more))


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ref.DTYPES, ids=str)
def test_allgather(dtype: torch.dtype) -> None:
    for number, rest in enumerate([(), (3,), (2, 2), (0,)]):
        for rows in (lambda r: 2, lambda r: r, lambda r: 0, lambda r: 3 - r if r < 3 else 0):
            inputs = [ref.make((rows(r), *rest), dtype, r, seed=number) for r in range(hvd.size())]
            wanted = np.concatenate([ref.to_numpy(t) for t in inputs])
            mine = inputs[hvd.rank()]
            ref.check(hvd.allgather(mine), wanted, dtype, rest)
            ref.check(hvd.allgather_async(mine).wait(), wanted, dtype, rest)
            for got in hvd.grouped_allgather([mine, mine]) + hvd.grouped_allgather_async([mine]).wait():
                ref.check(got, wanted, dtype, rest)
    scalars = [ref.make((), dtype, r) for r in range(hvd.size())]
    ref.check(hvd.allgather(scalars[hvd.rank()]), np.stack([ref.to_numpy(t) for t in scalars]), dtype)


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ref.DTYPES, ids=str)
def test_broadcast(dtype: torch.dtype) -> None:
    for number, shape in enumerate([*ref.SHAPES, ref.LARGE]):
        inputs = ref.make_all(shape, dtype, seed=number)
        for root in range(hvd.size()):
            wanted, mine = ref.to_numpy(inputs[root]), inputs[hvd.rank()]
            before = mine.clone()
            ref.check(hvd.broadcast(mine, root), wanted, dtype, shape)
            ref.check(hvd.broadcast_async(mine, root_rank=root).wait(), wanted, dtype, shape)
            assert torch.equal(mine, before)
            target = mine.clone()
            assert hvd.broadcast_(target, root) is target
            ref.check(target, wanted, dtype, shape)
            target = mine.clone()
            assert hvd.synchronize(hvd.broadcast_async_(target, root)) is target
            ref.check(target, wanted, dtype, shape)


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ref.DTYPES, ids=str)
def test_alltoall(dtype: torch.dtype) -> None:
    size, rank = hvd.size(), hvd.rank()
    for rest in [(), (3,), (2, 2)]:
        sent = [[(r + 2 * to) % 4 for to in range(size)] for r in range(size)]
        inputs = [ref.make((sum(sent[r]), *rest), dtype, r) for r in range(size)]
        parts = [np.split(ref.to_numpy(t), np.cumsum(sent[r])[:-1]) for r, t in enumerate(inputs)]
        wanted = np.concatenate([parts[r][rank] for r in range(size)])
        received = [sent[r][rank] for r in range(size)]
        for splits in (sent[rank], torch.tensor(sent[rank]), torch.tensor(sent[rank], dtype=torch.int32)):
            output, rows = hvd.alltoall(inputs[rank], splits=splits)
            ref.check(output, wanted, dtype, rest)
            assert rows.tolist() == received
        output, rows = hvd.alltoall_async(inputs[rank], sent[rank]).wait()
        ref.check(output, wanted, dtype, rest)
        assert rows.tolist() == received
        even = ref.make_all((2 * size, *rest), dtype)
        wanted = np.concatenate([ref.to_numpy(t)[2 * rank : 2 * rank + 2] for t in even])
        ref.check(hvd.alltoall(even[rank]), wanted, dtype, rest)
        output, rows = hvd.synchronize(hvd.alltoall_async(even[rank]))
        ref.check(output, wanted, dtype, rest)
        assert rows.tolist() == [2] * size


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("dtype", ref.DTYPES, ids=str)
def test_reducescatter(dtype: torch.dtype) -> None:
    for op in [Sum, Min, Max, Product] + ([Average] if dtype != torch.bool else []):
        for shape in [(8,), (7, 2), (1, 3), (0, 2), (5, 2, 2), (4001,)]:
            inputs = ref.make_all(shape, dtype)
            wanted = ref.reduce(inputs, op)[rows_of(shape[0])]
            mine = inputs[hvd.rank()]
            ref.check(hvd.reducescatter(mine, op=op), wanted, dtype, (op, shape))
            ref.check(hvd.reducescatter_async(mine, op=op).wait(), wanted, dtype, (op, shape))
            for got in hvd.grouped_reducescatter([mine] * 2, op=op):
                ref.check(got, wanted, dtype, (op, shape))
            for got in hvd.grouped_reducescatter_async([mine] * 2, op=op).wait():
                ref.check(got, wanted, dtype, (op, shape))
    if dtype.is_floating_point:
        inputs = ref.make_all((6, 2), dtype)
        got = hvd.reducescatter(inputs[hvd.rank()], prescale_factor=0.5, postscale_factor=3.0)
        ref.check(got, ref.reduce(inputs, Average, 0.5, 3.0)[rows_of(6)], dtype, slack=2)


@on_ranks(2, 3, 4)
def test_process_sets() -> None:
    everyone, rank = list(range(hvd.size())), hvd.rank()
    odd = hvd.add_process_set([r for r in everyone if r > 0])
    alone = hvd.add_process_set([0])
    for members in (odd, alone, hvd.global_process_set):
        if not members.included():
            with pytest.raises(ValueError):
                hvd.allreduce(torch.ones(2), process_set=members)
            continue
        inputs = ref.make_all((6, 2), torch.float32, ranks=members.ranks)
        mine, number = inputs[members.rank()], members.size()
        ref.check(hvd.allreduce(mine, process_set=members), ref.reduce(inputs, Average), torch.float32)
        ref.check(hvd.allreduce_(mine.clone(), op=Sum, process_set=members), ref.reduce(inputs, Sum), torch.float32)
        ref.check(hvd.grouped_allreduce([mine], process_set=members)[0], ref.reduce(inputs, Average), torch.float32)
        ref.check(hvd.allreduce(mine, op=Adasum, process_set=members), ref.reduce(inputs, Adasum), torch.float32)
        rows = np.concatenate([ref.to_numpy(t) for t in inputs])
        ref.check(hvd.allgather(mine, process_set=members), rows, torch.float32)
        root = members.ranks[-1]
        ref.check(hvd.broadcast(mine, root, process_set=members), ref.to_numpy(inputs[-1]), torch.float32)
        share = rows_of(6, members.rank(), number)
        ref.check(hvd.reducescatter(mine, process_set=members), ref.reduce(inputs, Average)[share], torch.float32)
        splits = [6 // number] * number
        output, _ = hvd.alltoall(mine[: sum(splits)], splits, process_set=members)
        cut = slice(members.rank() * splits[0], (members.rank() + 1) * splits[0])
        ref.check(output, np.concatenate([ref.to_numpy(t)[cut] for t in inputs]), torch.float32)
        hvd.barrier(members)
        assert hvd.allgather_object(rank, process_set=members) == members.ranks
        assert hvd.broadcast_object(rank, root, process_set=members) == root
    assert hvd.remove_process_set(odd) and hvd.remove_process_set(alone)
    assert not hvd.remove_process_set(odd) and not hvd.remove_process_set(hvd.global_process_set)


@on_ranks(2, 4)
def test_many_in_flight_in_different_orders() -> None:
    count = 200
    order = np.random.default_rng(hvd.rank()).permutation(count)
    tensors = {i: torch.full((i % 17,), float(i + hvd.rank())) for i in range(count)}
    handles = {i: hvd.allreduce_async_(tensors[i], name=f"flight{i}", op=Sum) for i in order.tolist()}
    for i, handle in handles.items():
        wanted = hvd.size() * i + sum(range(hvd.size()))
        assert torch.equal(hvd.synchronize(handle), torch.full((i % 17,), float(wanted)))
        assert hvd.poll(handle)


@on_ranks(2)
def test_dropped_handles_and_changed_inputs() -> None:
    for i in range(50):
        hvd.allreduce_async(torch.ones(1000), name=f"dropped{i}")  # nobody waits
    handle = hvd.allreduce_async(torch.ones(1000))
    del handle
    assert torch.equal(hvd.allreduce(torch.ones(3), op=Sum), torch.full((3,), 2.0))
    source = torch.ones(4)
    result = hvd.allgather(source)
    source.zero_()
    assert result.sum() == 8
    result.add_(1)  # outputs are the caller's own
    assert hvd.allgather(torch.ones(4)).sum() == 8
    twice = hvd.allreduce_async(torch.ones(2), op=Sum)
    assert hvd.synchronize(twice) is hvd.synchronize(twice) is twice()


@on_ranks(2, 3)
def test_sparse_allreduce() -> None:
    rank, size = hvd.rank(), hvd.size()

    def sparse_of(r: int) -> torch.Tensor:
        indices = torch.tensor([[r, 4, r], [0, 1, 0]])  # a repeated index, and one that all share
        return torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]) * (r + 1), (6, 2))

    total = sum(sparse_of(r).to_dense() for r in range(size))
    for op, wanted in [(Average, total / size), (Sum, total)]:
        handle = hvd.sparse_allreduce_async(sparse_of(rank), name="sparse", op=op)
        result = handle()
        assert result.is_sparse and result.is_coalesced()
        torch.testing.assert_close(result.to_dense(), wanted)
        torch.testing.assert_close(hvd.synchronize(handle).to_dense(), wanted)
    rows = torch.sparse_coo_tensor(torch.tensor([[rank, 5]]), torch.ones(2, 3), (6, 3))  # dense rows
    wanted = torch.zeros(6, 3)
    wanted[:size] += 1
    wanted[5] = size
    torch.testing.assert_close(hvd.sparse_allreduce_async(rows, op=Sum).wait().to_dense(), wanted)
    empty = torch.sparse_coo_tensor(size=(6, 3)) if rank == 0 else rows  # nothing on one rank
    if rank == 0:
        empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 3), (6, 3))
    got = hvd.sparse_allreduce_async(empty, op=Sum).wait().to_dense()
    torch.testing.assert_close(got[5], torch.full((3,), size - 1.0))
    with pytest.raises(ValueError, match="Adasum"):
        hvd.sparse_allreduce_async(rows, op=Adasum)
    with pytest.raises(ValueError, match="not sparse"):
        hvd.sparse_allreduce_async(torch.ones(2))
    with pytest.raises(ValueError, match="sparse_allreduce_async"):
        hvd.allreduce(rows)


@on_ranks(2, 3)
def test_join() -> None:
    for last in range(hvd.size()):
        for step in range(3 if hvd.rank() == last else 1):
            got = hvd.allreduce(torch.full((4,), hvd.rank() + 1.0), name=f"joined{step}")
            others = range(hvd.size()) if step == 0 else [last]
            assert torch.allclose(got, torch.full((4,), sum(r + 1.0 for r in others) / hvd.size()))
        assert hvd.join() == last or hvd.size() > 2  # who of three comes last is not decided by steps alone


@on_ranks(1, 2, 3)
def test_objects_and_metrics() -> None:
    objects = [{"rank": r, "list": list(range(r))} for r in range(hvd.size())]
    assert hvd.allgather_object(objects[hvd.rank()], name="things") == objects
    for root in range(hvd.size()):
        assert hvd.broadcast_object(objects[hvd.rank()], root) == objects[root]
    assert hvd.broadcast_object(None, hvd.size() - 1) is None
    large = b"x" * 3_000_000 if hvd.rank() == 0 else None
    assert len(hvd.broadcast_object(large)) == 3_000_000
    assert hvd.metric_average(float(hvd.rank()), "loss") == (hvd.size() - 1) / 2
    assert hvd.metric_average(torch.tensor(3), "whole") == 3.0
