"""DistributedOptimizer with gradients, against the same training in one process on the joined batch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, Callable, Dict, List

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks
from torch import optim
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from training import ROWS, assert_alike, assert_same, batches, compare, joined, loss_of, make_model, train, values

OPTIMIZERS: Dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p, lr=1.0),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "asgd": lambda p: optim.ASGD(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
}


def sgd(parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.1, momentum=0.9)


def shard(data: List[Any]) -> List[Any]:
    return [parts[hvd.rank()] for parts in data]


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name: str) -> None:
    wrapped = compare(OPTIMIZERS[name])
    assert isinstance(wrapped, type(OPTIMIZERS[name]([torch.zeros(1)])))


@on_ranks(2, 3, 4)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_clipping(set_to_none: bool) -> None:
    compare(sgd, before_step=lambda m: clip_grad_norm_(m.parameters(), 0.05), set_to_none=set_to_none)
    compare(OPTIMIZERS["adam"], before_step=lambda m: clip_grad_value_(m.parameters(), 0.01), set_to_none=set_to_none)


@on_ranks(2, 3)
def test_the_dance_of_old() -> None:
    """synchronize(), clip, skip_synchronize(): as scripts for Horovod do it."""
    data = batches(3)
    reference = make_model()
    clip = lambda m: clip_grad_norm_(m.parameters(), 0.05)  # noqa: E731
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data], clip)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    for batch in shard(data):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.synchronize()
        clip(model)
        with optimizer.skip_synchronize():
            optimizer.step()
    assert_same(model, reference)


@on_ranks(2, 3)
@pytest.mark.parametrize(
    "wrap",
    [
        {"num_groups": 1},
        {"num_groups": 2},
        {"groups": 3},
        {"groups": 100},
        {"gradient_predivide_factor": 2.0},
        {"gradient_predivide_factor": 4.0, "groups": 2},
        {"compression": hvd.Compression.bf16, "groups": 2, "tolerance": 3e-2},
        {"compression": hvd.Compression.fp16, "tolerance": 3e-3},
        {"compression": hvd.Compression.none},
        {"sparse_as_dense": True},
    ],
    ids=str,
)
def test_ways_to_wrap(wrap: Dict[str, Any]) -> None:
    compare(sgd, **wrap)
    compare(sgd, set_to_none=False, **wrap)


@on_ranks(2)
def test_groups_of_parameters() -> None:
    data = batches(3)
    reference, model = make_model(), make_model()
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    parameters = list(model.parameters())
    groups = [parameters[4:6], [parameters[0]]]
    optimizer = hvd.DistributedOptimizer(sgd(parameters), model.named_parameters(), groups=groups)
    train(model, optimizer, shard(data))
    assert_same(model, reference)


class Doubling:
    """A compressor that the package does not know."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Any:
        return (tensor * 2).float(), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor.to(context) / 2


@on_ranks(2, 3)
def test_a_compressor_of_the_user() -> None:
    compare(sgd, compression=Doubling, tolerance=1e-5)
    compare(sgd, compression=Doubling, tolerance=1e-5, set_to_none=False, num_groups=2)


@on_ranks(2, 3)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_sum(set_to_none: bool) -> None:
    data = batches(4)
    reference, model = make_model(), make_model()
    train(reference, optim.SGD(reference.parameters(), lr=0.05 * hvd.size()), [joined(parts) for parts in data])
    optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=0.05), op=hvd.Sum)
    train(model, optimizer, shard(data), set_to_none=set_to_none)
    optimizer.synchronize()
    assert_same(model, reference)
    gradients = [p.grad.clone() for p in model.parameters()]
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.synchronize()  # nothing new: gradients stay what they are
    for parameter, before in zip(model.parameters(), gradients):
        torch.testing.assert_close(parameter.grad, before)


# ---- Accumulation -----------------------------------------------------------------------------------


def accumulate(model: Any, optimizer: Any, data: List[Any], passes: int, divide: bool, set_to_none: bool, quiet: bool) -> None:
    """Steps after every ``passes`` batches, and after what is left; ``quiet``: by no_sync."""
    for start in range(0, len(data), passes):
        part = data[start : start + passes]
        optimizer.zero_grad(set_to_none=set_to_none)
        for number, batch in enumerate(part):
            loss = loss_of(model, batch)
            if quiet and number < len(part) - 1:
                with optimizer.no_sync():
                    (loss / passes if divide else loss).backward()
            else:
                (loss / passes if divide else loss).backward()
        optimizer.step()


@on_ranks(2, 3)
@pytest.mark.parametrize("quiet", [False, True], ids=["passes", "no_sync"])
@pytest.mark.parametrize("set_to_none", [True, False], ids=["none", "zeros"])
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
def test_accumulation(quiet: bool, set_to_none: bool, op: int) -> None:
    """Seven batches by three: the last step has one pass only."""
    data = batches(7)
    rate = 0.1 if op == hvd.Average else 0.1 / hvd.size()
    reference, model = make_model(), make_model()
    accumulate(
        reference, optim.SGD(reference.parameters(), lr=0.1), [joined(parts) for parts in data], 3, True, True, False
    )
    passes = 1 if quiet else 3
    optimizer = hvd.DistributedOptimizer(
        optim.SGD(model.parameters(), lr=rate), model.named_parameters(), backward_passes_per_step=passes, op=op
    )
    accumulate(model, optimizer, shard(data), 3, True, set_to_none, quiet)
    assert_same(model, reference)


@on_ranks(2)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
@pytest.mark.parametrize("set_to_none", [True, False], ids=["none", "zeros"])
def test_only_quiet_passes_before_a_step(op: int, set_to_none: bool) -> None:
    data = batches(4)
    reference, model = make_model(), make_model()
    train(reference, optim.SGD(reference.parameters(), lr=0.1), [joined(parts) for parts in data])
    rate = 0.1 if op == hvd.Average else 0.1 / hvd.size()
    optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=rate), op=op)
    for batch in shard(data):
        optimizer.zero_grad(set_to_none=set_to_none)
        with optimizer.no_sync():
            loss_of(model, batch).backward()
        optimizer.step()
    assert_same(model, reference)


@on_ranks(2)
def test_passes_can_be_changed() -> None:
    data = batches(6)
    reference, model = make_model(), make_model()
    whole = [joined(parts) for parts in data]
    plain = optim.SGD(reference.parameters(), lr=0.1)
    accumulate(reference, plain, whole[:2], 1, False, True, False)
    accumulate(reference, plain, whole[2:], 2, False, True, False)
    optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=0.1))
    accumulate(model, optimizer, shard(data)[:2], 1, False, True, False)
    optimizer.set_backward_passes_per_step(2)
    accumulate(model, optimizer, shard(data)[2:], 2, False, True, False)
    assert_same(model, reference)
    with pytest.raises(ValueError, match="backward_passes_per_step"):
        optimizer.set_backward_passes_per_step(0)


@on_ranks(2)
def test_more_passes_than_announced() -> None:
    """Average goes on (sums of averages are averages of sums); Sum says what to do."""
    data = batches(6)
    reference, model = make_model(), make_model()
    accumulate(reference, sgd(reference.parameters()), [joined(p) for p in data], 2, False, True, False)
    accumulate(model, hvd.DistributedOptimizer(sgd(model.parameters())), shard(data), 2, False, True, False)
    assert_same(model, reference)
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), op=hvd.Sum)
    loss_of(model, shard(data)[0]).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, shard(data)[0]).backward()
    optimizer.zero_grad()
    loss_of(model, shard(data)[0]).backward()
    optimizer.step()


@on_ranks(2)
def test_one_graph_two_backward_passes() -> None:
    data = batches(3)

    def run(model: Any, optimizer: Any, parts: List[Any]) -> None:
        for batch in parts:
            optimizer.zero_grad()
            output = model(batch[0])
            (output - batch[1]).square().mean().backward(retain_graph=True)
            output.abs().mean().backward()
            optimizer.step()

    reference, model = make_model(), make_model()
    run(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    run(model, hvd.DistributedOptimizer(sgd(model.parameters()), backward_passes_per_step=2), shard(data))
    assert_same(model, reference)


# ---- Loss scaling -----------------------------------------------------------------------------------


@on_ranks(2, 3)
@pytest.mark.parametrize("unscale", [False, True])
def test_loss_scaling_with_an_overflow_on_one_rank(unscale: bool) -> None:
    """All ranks skip the step in which one rank's gradients overflow."""
    data = batches(5)
    reference, model = make_model(), make_model()
    whole = [joined(parts) for parts in data]
    clip = (lambda m: clip_grad_norm_(m.parameters(), 0.1)) if unscale else None
    train(reference, sgd(reference.parameters()), whole[:2] + whole[3:], clip)
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step, batch in enumerate(shard(data)):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        if step == 2 and hvd.rank() == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 512.0
    assert_same(model, reference)


@on_ranks(2)
def test_autocast() -> None:
    model = make_model().float()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    scaler = torch.amp.GradScaler("cpu")
    for batch in shard(batches(3)):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, tuple(t.float() for t in batch))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert_alike(model)


# ---- What models do ---------------------------------------------------------------------------------


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


@on_ranks(2)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_parameters(dtype: torch.dtype) -> None:
    def run(wrap: Any, rows: torch.Tensor) -> torch.nn.Module:
        torch.manual_seed(1)
        model = torch.nn.ParameterList([torch.randn(3, 2, dtype=dtype), torch.randn(2, dtype=dtype)])
        optimizer = wrap(optim.Adam(model.parameters(), lr=0.1))
        for _ in range(3):
            optimizer.zero_grad()
            (rows @ model[0] + model[1]).abs().square().mean().backward()
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
        optimizer = wrap(optim.SGD(model.parameters(), lr=0.1))
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


# ---- What an optimizer is ---------------------------------------------------------------------------


@on_ranks(2)
@pytest.mark.parametrize("early", [True, False])
def test_schedulers_made_before_and_after_wrapping(early: bool) -> None:
    data = batches(4)

    def run(model: Any, wrap: Any, parts: List[Any]) -> Any:
        optimizer = sgd(model.parameters())
        if early:
            scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        optimizer = wrap(optimizer)
        if not early:
            scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        for batch in parts:
            train(model, optimizer, [batch])
            scheduler.step()
        return optimizer

    reference, model = make_model(), make_model()
    run(reference, lambda o: o, [joined(parts) for parts in data])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = run(model, hvd.DistributedOptimizer, shard(data))
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**4
    assert_same(model, reference)


@on_ranks(1, 2)
def test_hooks_of_steps() -> None:
    model = make_model()
    plain = sgd(model.parameters())
    calls: List[str] = []
    plain.register_step_pre_hook(lambda *_: calls.append("early"))
    optimizer = hvd.DistributedOptimizer(plain)
    optimizer.register_step_post_hook(lambda *_: calls.append("late"))
    train(model, optimizer, shard(batches(2)))
    assert calls == ["early", "late"] * 2


@on_ranks(2)
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_state_dicts_are_the_wrapped_optimizers(name: str) -> None:
    data = batches(4)
    reference, model = make_model(), make_model()
    plain = OPTIMIZERS[name](reference.parameters())
    train(reference, plain, [joined(parts) for parts in data])
    first = hvd.DistributedOptimizer(OPTIMIZERS[name](model.parameters()), model.named_parameters())
    train(model, first, shard(data)[:2])
    state = first.state_dict()
    assert state.keys() == plain.state_dict().keys()
    assert state["param_groups"] == plain.state_dict()["param_groups"]
    other = make_model()
    other.load_state_dict(model.state_dict())
    bare = OPTIMIZERS[name](other.parameters())
    bare.load_state_dict(state)  # into one that is not wrapped, and back
    second = hvd.DistributedOptimizer(OPTIMIZERS[name](other.parameters()))
    second.load_state_dict(bare.state_dict())
    train(other, second, shard(data)[2:])
    assert_same(other, reference)


@on_ranks(2)
def test_closures() -> None:
    data = batches(3)
    reference, model = make_model(), make_model()
    train(reference, sgd(reference.parameters()), [joined(parts) for parts in data])
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    for batch in shard(data):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    assert_same(model, reference)


@on_ranks(2)
def test_lbfgs_takes_the_same_steps() -> None:
    (parts,) = batches(1)

    def run(model: Any, optimizer: Any, batch: Any) -> None:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            return loss

        optimizer.step(closure)

    model = make_model()
    run(model, hvd.DistributedOptimizer(optim.LBFGS(model.parameters(), max_iter=4, lr=0.1)), parts[hvd.rank()])
    assert_alike(model)


@on_ranks(2)
def test_an_exception_in_backward_then_zero_grad() -> None:
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError("on purpose")

    data = batches(4)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()))
    for step, batch in enumerate(shard(data)):
        optimizer.zero_grad()
        if step in (0, 2) and hvd.rank() == 1:
            hidden = model[:3](batch[0])
            with pytest.raises(ArithmeticError):
                loss_of(model[3:], (Fails.apply(hidden), batch[1])).backward()
            optimizer.zero_grad()  # gives the other rank zeros
        else:
            loss_of(model, batch).backward()
        if step in (0, 2):
            continue  # nobody steps
        optimizer.step()
    assert_alike(model)


@on_ranks(2)
def test_a_step_without_a_backward_pass() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(optim.SGD(model.parameters(), lr=0.1))
    before = values(model)
    optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(before, values(model)))
    for parameter in model.parameters():  # gradients that did not come from a backward pass
        parameter.grad = torch.full_like(parameter, float(hvd.rank()))
    optimizer.step()
    for parameter, old in zip(model.parameters(), before):
        torch.testing.assert_close(parameter.detach(), old - 0.05)


@on_ranks(1, 2)
def test_bad_arguments() -> None:
    model = make_model()
    plain = sgd(model.parameters())
    named = list(model.named_parameters())
    with pytest.raises(ValueError, match="tuple"):
        hvd.DistributedOptimizer(plain, list(model.parameters()))
    with pytest.raises(ValueError, match="unique"):
        hvd.DistributedOptimizer(plain, named + [named[0]])
    with pytest.raises(ValueError, match="leaves out 1"):
        hvd.DistributedOptimizer(plain, named[1:])
    with pytest.raises(ValueError, match="Average, Sum or Adasum"):
        hvd.DistributedOptimizer(plain, op=hvd.Max)
    with pytest.raises(ValueError, match="Average only"):
        hvd.DistributedOptimizer(plain, op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError, match="at least 1"):
        hvd.DistributedOptimizer(plain, backward_passes_per_step=0)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(plain, groups=-1)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(plain, groups=["a"])
    with pytest.raises(ValueError, match="two groups"):
        hvd.DistributedOptimizer(plain, groups=[[named[0][1]], [named[0][1]]])
    with pytest.raises(ValueError, match="not one of"):
        hvd.DistributedOptimizer(plain, groups=[[torch.zeros(1)]])
