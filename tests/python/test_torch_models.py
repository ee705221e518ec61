"""What models do to a DistributedOptimizer, against the same training in one process on the joined batch."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, Tuple

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks
from torch import optim
from training import (
    ROWS,
    Doubling,
    assert_alike,
    assert_same,
    batches,
    compare,
    joined,
    loss_of,
    make_model,
    sgd,
    shard,
    train,
)


class Branches(torch.nn.Module):
    """Some parameters are used by some ranks only, some by none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.common = torch.nn.Linear(5, 3)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(5, 3) for _ in range(4))
        self.never = torch.nn.Parameter(torch.ones(3))
        self.double()

    def forward(self, x: torch.Tensor, branch: int = -1) -> torch.Tensor:
        y = self.common(x)
        return y if branch < 0 else y + self.branches[branch](x)


@on_ranks(2, 3)
@pytest.mark.parametrize("set_to_none", [True, False], ids=["none", "zeros"])
@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16, Doubling], ids=str)
def test_unused_parameters(set_to_none: bool, compression: Any) -> None:
    """In step s, rank r uses branch (r + s) % 4, rank 0 none at times; weight decay shows who has a gradient."""
    data, size = batches(6), hvd.size()

    def branch_of(rank: int, step: int) -> int:
        return -1 if rank == 0 and step % 2 else (rank + step) % 3

    reference, model = Branches(), Branches()
    plain = optim.SGD(reference.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)
    wrapped = hvd.DistributedOptimizer(
        optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1),
        model.named_parameters(),
        compression=compression,
    )
    for step, parts in enumerate(data):
        plain.zero_grad(set_to_none=set_to_none)
        for rank, (x, y) in enumerate(parts):
            (torch.nn.functional.mse_loss(reference(x, branch_of(rank, step)), y) / size).backward()
        plain.step()
        wrapped.zero_grad(set_to_none=set_to_none)
        x, y = parts[hvd.rank()]
        torch.nn.functional.mse_loss(model(x, branch_of(hvd.rank(), step)), y).backward()
        wrapped.step()
        for (name, p), q in zip(model.named_parameters(), reference.parameters()):
            assert (p.grad is None) == (q.grad is None), (step, name)
    assert model.never.grad is None
    assert_same(model, reference, 1e-10 if compression is hvd.Compression.none else 1e-2)


@on_ranks(2)
def test_channels_last() -> None:
    def make() -> torch.nn.Module:
        torch.manual_seed(1)
        layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3, groups=2)]
        return torch.nn.Sequential(*layers).double().to(memory_format=torch.channels_last)

    torch.manual_seed(5)
    images = torch.randn(4, 2 * hvd.size(), 3, 8, 8, dtype=torch.float64)
    reference, model = make(), make()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    plain = sgd(reference.parameters())
    for step in images:
        for net, opt, x in ((reference, plain, step), (model, optimizer, step[2 * hvd.rank() : 2 * hvd.rank() + 2])):
            opt.zero_grad()
            net(x.contiguous(memory_format=torch.channels_last)).square().mean().backward()
            opt.step()
    assert_same(model, reference)
    assert model[0].weight.grad.stride() == model[0].weight.stride()


@on_ranks(2, 3)
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpoints(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = make_model()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.layers[0](x).requires_grad_()
            x = checkpoint(self.layers[1:3], x, use_reentrant=reentrant)
            return checkpoint(self.layers[3:], x, use_reentrant=reentrant)

    data = batches(4)
    reference, model = Checkpointed(), Checkpointed()
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    train(model, hvd.DistributedOptimizer(sgd(model.parameters())), shard(data))
    assert_same(model, reference)


@on_ranks(2)
def test_two_optimizers_of_an_adversarial_pair() -> None:
    data = batches(4)

    def run(make: Callable[[Any, str], Any], parts: List[Any]) -> torch.nn.Module:
        torch.manual_seed(2)
        generator, critic = make_model(1), torch.nn.Linear(3, 1).double()
        first, second = make(generator, "g"), make(critic, "c")
        for x, y in parts:
            second.zero_grad()
            (critic(generator(x).detach()).mean() - critic(y).mean()).backward()
            second.step()
            first.zero_grad()
            (-critic(generator(x)).mean()).backward()  # also computes gradients of the critic
            first.step()
        return torch.nn.ModuleList([generator, critic])

    reference = run(lambda m, n: sgd(m.parameters()), [joined(parts) for parts in data])
    model = run(lambda m, n: hvd.DistributedOptimizer(sgd(m.parameters())), shard(data))
    assert_same(model, reference)


@on_ranks(2)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
def test_freezing_and_unfreezing(op: int) -> None:
    data = batches(9)

    def run(model: torch.nn.Module, make: Callable[[Any], Any], parts: List[Any]) -> None:
        for p in model[0].parameters():
            p.requires_grad_(False)
        optimizer = make(model)
        train(model, optimizer, parts[:3])
        for p in itertools.chain(model[0].parameters(), model[2].parameters()):  # as many as before
            p.requires_grad_(not p.requires_grad)
        train(model, optimizer, parts[3:6])
        for p in model.parameters():
            p.requires_grad_(True)
        train(model, optimizer, parts[6:])

    reference, model = make_model(), make_model()
    run(reference, lambda m: optim.SGD(m.parameters(), lr=0.1), [joined(parts) for parts in data])
    rate = 0.1 if op == hvd.Average else 0.1 / hvd.size()
    run(model, lambda m: hvd.DistributedOptimizer(optim.SGD(m.parameters(), lr=rate), m.named_parameters(), op=op), shard(data))
    assert_same(model, reference)


@on_ranks(2)
def test_parameter_groups_that_come_later() -> None:
    data = batches(4)

    def run(model: torch.nn.Module, wrap: Callable[[Any], Any], parts: List[Any]) -> None:
        optimizer = wrap(sgd(model[0].parameters()))
        train(model, optimizer, parts[:2])
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.05})
        model.zero_grad()
        train(model, optimizer, parts[2:])

    reference, model = make_model(), make_model()
    run(reference, lambda o: o, [joined(parts) for parts in data])
    run(model, hvd.DistributedOptimizer, shard(data))
    assert_same(model, reference)


@on_ranks(2, 3)
@pytest.mark.parametrize("as_dense", [False, True])
@pytest.mark.parametrize("wrap", [{}, {"gradient_predivide_factor": 2.0}, {"op": hvd.Sum}, {"groups": 2}], ids=str)
def test_sparse_embedding(as_dense: bool, wrap: Dict[str, Any]) -> None:
    class Words(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.table = torch.nn.Embedding(10, 4, sparse=True)
            self.top = torch.nn.Linear(4, 2)
            self.double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.top(self.table(x))

    words = torch.randint(0, 10, (4, hvd.size(), 3), generator=torch.Generator().manual_seed(3))
    reference, model = Words(), Words()
    rate = 0.1 / hvd.size() if wrap.get("op") == hvd.Sum else 0.1
    plain = optim.SGD(reference.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(
        optim.SGD(model.parameters(), lr=rate), model.named_parameters(), sparse_as_dense=as_dense, **wrap
    )
    for step in words:
        for net, opt, x in ((reference, plain, step.flatten()), (model, optimizer, step[hvd.rank()])):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        assert model.table.weight.grad.is_sparse != as_dense
    assert_same(model, reference)


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("wrap", [{}, {"compression": hvd.Compression.fp16}, {"backward_passes_per_step": 2}], ids=str)
def test_sparse_adam_with_gradients_that_are_dense_on_the_way(wrap: Dict[str, Any]) -> None:
    """SparseAdam takes sparse gradients alone, and changes the rows that these have."""

    def make() -> Tuple[torch.nn.Module, Any]:
        torch.manual_seed(1)
        table = torch.nn.Embedding(10, 4, sparse=True)
        return table, optim.SparseAdam(table.parameters(), lr=0.1)

    words = torch.randint(0, 10, (4, hvd.size(), 2, 3), generator=torch.Generator().manual_seed(3))
    (reference, plain), (table, inner) = make(), make()
    optimizer = hvd.DistributedOptimizer(inner, table.named_parameters(), sparse_as_dense=True, **wrap)
    passes = wrap.get("backward_passes_per_step", 1)
    for step in words:
        before = table.weight.detach().clone()
        optimizer.zero_grad(), plain.zero_grad()
        for rows in step[hvd.rank()][:passes]:
            table(rows).square().sum().backward()
        (reference(step[:, :passes].flatten()).square().sum() / hvd.size()).backward()
        assert table.weight.grad.is_sparse
        optimizer.step(), plain.step()
        changed = (table.weight != before).any(1).nonzero().flatten()
        assert changed.tolist() == step[:, :passes].unique().tolist()
    tolerance = 1e-2 if "compression" in wrap else 1e-5
    torch.testing.assert_close(table.weight, reference.weight, rtol=tolerance, atol=tolerance)


@on_ranks(2)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_parameters(dtype: torch.dtype) -> None:
    def run(wrap: Any, rows: torch.Tensor) -> torch.nn.Module:
        torch.manual_seed(1)
        model = torch.nn.ParameterList([torch.randn(3, 2, dtype=dtype), torch.randn(2, dtype=dtype)])
        optimizer = wrap(optim.Adam(model.parameters(), lr=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            conjugated = (rows @ model[0].conj()).imag.mean()  # has a lazily conjugated gradient
            ((rows @ model[0] + model[1]).abs().square().mean() + conjugated).backward()
            optimizer.step()
        return model

    torch.manual_seed(2)
    data = torch.randn(hvd.size() * 2, 3, dtype=dtype)
    reference = run(lambda o: o, data)
    model = run(hvd.DistributedOptimizer, data[2 * hvd.rank() : 2 * hvd.rank() + 2])
    assert_same(model, reference, 1e-4)
    hvd.broadcast_parameters(model.state_dict(), 0)


@on_ranks(2)
def test_low_precision_parameters() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        model = make_model().to(dtype)
        optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=0.01))
        train(model, optimizer, [tuple(t.to(dtype) for t in batch) for batch in shard(batches(3))])
        assert_alike(model)


@on_ranks(3, 4)
def test_process_sets() -> None:
    """Two halves train apart; an optimizer of all ranks made later still finds its partners."""
    half = hvd.size() // 2
    sets = [hvd.add_process_set(list(range(half))), hvd.add_process_set(list(range(half, hvd.size())))]
    mine = sets[0] if hvd.rank() < half else sets[1]
    data = batches(3)
    reference, model = make_model(), make_model()
    train(reference, sgd(reference.parameters()), [joined([parts[r] for r in mine.ranks]) for parts in data])
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), process_set=mine)
    other = hvd.DistributedOptimizer(sgd(make_model().parameters()), process_set=sets[0])  # some are not in it
    train(model, optimizer, shard(data))
    for got, wanted in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    assert_alike(model, mine)
    compare(sgd)
    other.step()
    for each in sets:
        hvd.remove_process_set(each)


@on_ranks(2, timeout=300)
def test_compiled_models() -> None:
    torch._dynamo.reset()
    data = batches(3)
    reference, model = make_model(), make_model()
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    compiled = torch.compile(model, backend="aot_eager")
    train(compiled, optimizer, shard(data))
    assert_same(model, reference)


@on_ranks(2)
def test_data_loader_workers_that_fork() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    data = batches(4)
    reference, model = make_model(), make_model()
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    rows = TensorDataset(*joined(shard(data)))
    for epoch in range(1):
        loader = DataLoader(rows, batch_size=ROWS, num_workers=2, multiprocessing_context="fork")
        train(model, optimizer, [tuple(batch) for batch in loader])
    assert_same(model, reference)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(2, 3)
def test_odd_parameters() -> None:
    """Scalars, nothing at all, strange strides, several types."""

    def run(wrap: Any, x: torch.Tensor) -> torch.nn.ParameterList:
        torch.manual_seed(1)
        tensors = [torch.tensor(2.0), torch.zeros(0), torch.randn(6, 4)[:, ::2], torch.randn(2, 6).t()]
        tensors += [torch.randn(3).to(torch.bfloat16), torch.randn(3, 1).double(), torch.randn(1)]
        model = torch.nn.ParameterList([torch.nn.Parameter(t) for t in tensors])
        optimizer = wrap(optim.SGD(model.parameters(), lr=0.001))
        for _ in range(3):
            optimizer.zero_grad()
            y = model[0] * x @ model[2] + (x @ model[3]) * model[4].float().sum() + model[5].sum().float()
            (y.square().mean() + model[1].sum() + model[6].sum()).backward()
            optimizer.step()
        return model

    torch.manual_seed(3)
    x = torch.randn(2 * hvd.size(), 6)
    reference = run(lambda o: o, x)
    model = run(hvd.DistributedOptimizer, x[2 * hvd.rank() : 2 * hvd.rank() + 2])
    assert_same(model, reference, 2e-2)


@on_ranks(2, 3)
def test_batches_of_different_number_and_join() -> None:
    """A rank that has joined gives zeros, and averages still divide by all ranks."""
    data, rank, size = batches(6), hvd.rank(), hvd.size()
    counts = [3 + r for r in range(size)]
    reference, model = make_model(), make_model()
    plain = optim.SGD(reference.parameters(), lr=0.1)
    for step in range(max(counts)):
        plain.zero_grad()
        for r in range(size):
            if step < counts[r]:
                (loss_of(reference, data[step][r]) / size).backward()
        plain.step()
    optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=0.1))
    train(model, optimizer, shard(data)[: counts[rank]])
    hvd.join()
    hvd.broadcast_parameters(model.state_dict(), size - 1)  # the one that has seen all steps
    assert_same(model, reference)


@on_ranks(2)
def test_copies_of_a_model_do_not_communicate() -> None:
    import copy
    import io

    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    train(model, optimizer, shard(batches(2)))
    before = hvd.stats()["operations"]
    for other in (copy.deepcopy(model), make_model()):
        other.load_state_dict(model.state_dict())
        loss_of(other, shard(batches(1))[0]).backward()
    file = io.BytesIO()
    torch.save(model, file)
    assert file.getbuffer().nbytes > 0
    if hvd.rank() == 0:  # also alone
        loss_of(copy.deepcopy(model), shard(batches(1))[0]).backward()
    assert hvd.stats()["operations"] == before


@on_ranks(2)
def test_wrapping_again() -> None:
    """An optimizer that is gone no longer communicates."""
    data = batches(9)
    reference, model = make_model(), make_model()
    for start in (0, 3, 6):
        part = data[start : start + 3]
        train(reference, sgd(reference.parameters()), [joined(parts) for parts in part])
        train(model, hvd.DistributedOptimizer(sgd(model.parameters())), shard(part))
    assert_same(model, reference)
    before = hvd.stats()["operations"]
    loss_of(model, shard(data)[0]).backward()
    assert hvd.stats()["operations"] == before


@on_ranks(2)
def test_large_models_have_several_buckets() -> None:
    def run(wrap: Any, x: torch.Tensor) -> torch.nn.Module:
        torch.manual_seed(1)
        model = torch.nn.Sequential(*[torch.nn.Linear(600, 600) for _ in range(8)])  # 11 MB
        optimizer = wrap(optim.SGD(model.parameters(), lr=0.1))
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return model

    torch.manual_seed(2)
    x = torch.randn(4, 600)
    reference = run(lambda o: o, x)
    model = run(hvd.DistributedOptimizer, x[2 * hvd.rank() : 2 * hvd.rank() + 2])
    assert_same(model, reference, 1e-4)
