"""DistributedOptimizer with op=Adasum, against the binary tree of updates in NumPy."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest
import reference as ref
import rueda.torch as hvd
import torch
from ranks import on_ranks
from torch import optim
from torch.nn.utils import clip_grad_norm_
from training import assert_alike, batches, loss_of, make_model, values

OPTIMIZERS: Dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
}


class Reference:
    """All ranks in one process: each does its own step, and the changes are combined."""

    def __init__(self, make_optimizer: Callable[[Any], optim.Optimizer], ranks: int) -> None:
        self.models = [make_model() for _ in range(ranks)]
        self.optimizers = [make_optimizer(model.parameters()) for model in self.models]
        self.orthogonality: List[float] = []

    def step(self, compute: Callable[[int, torch.nn.Module], bool]) -> None:
        """``compute(rank, model)`` leaves gradients; False: this rank skips its step."""
        start = values(self.models[0])
        for rank, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
            optimizer.zero_grad()
            if compute(rank, model):
                optimizer.step()
        self.orthogonality = []
        for index, old in enumerate(start):
            parameters = [list(model.parameters())[index] for model in self.models]
            changes = [(p.detach() - old).numpy() for p in parameters]
            new = old + torch.from_numpy(ref.adasum(changes))
            self.orthogonality.append(ref.orthogonality(changes))
            for parameter in parameters:
                parameter.data.copy_(new)


def check(reference: Reference, model: torch.nn.Module, tolerance: float = 1e-9) -> None:
    for (name, got), wanted in zip(model.named_parameters(), reference.models[0].parameters()):
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")
    assert_alike(model)


def compare(
    name: str,
    clip: Optional[float] = None,
    passes: int = 1,
    tolerance: float = 1e-9,
    **wrap: Any,
) -> None:
    data = batches(4 * passes)
    model = make_model()
    reference = Reference(OPTIMIZERS[name], hvd.size())
    optimizer = hvd.DistributedOptimizer(
        OPTIMIZERS[name](model.parameters()),
        model.named_parameters(),
        op=hvd.Adasum,
        backward_passes_per_step=passes,
        **wrap,
    )

    def gradients(net: torch.nn.Module, rank: int, start: int) -> bool:
        for parts in data[start : start + passes]:
            loss_of(net, parts[rank]).backward()
        if clip is not None:
            clip_grad_norm_(net.parameters(), clip)
        return True

    for start in range(0, len(data), passes):
        reference.step(lambda rank, net: gradients(net, rank, start))
        optimizer.zero_grad()
        gradients(model, hvd.rank(), start)
        optimizer.step()
    check(reference, model, tolerance)
    if tolerance < 1e-6:
        by_layer = hvd.orthogonality(optimizer)
        assert list(by_layer) == [n for n, _ in model.named_parameters()]
        np.testing.assert_allclose(list(by_layer.values()), reference.orthogonality, rtol=1e-6)
        for layer, value in by_layer.items():
            assert hvd.orthogonality(layer) == value
        assert 0 < hvd.orthogonality() <= 1.5


@on_ranks(1, 2, 3, 4)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name: str) -> None:
    if hvd.size() == 1:  # nothing to combine, nothing to measure
        model = make_model()
        hvd.DistributedOptimizer(OPTIMIZERS[name](model.parameters()), op=hvd.Adasum).step()
        return
    compare(name)


@on_ranks(2, 3)
@pytest.mark.parametrize(
    "wrap",
    [
        {"clip": 0.05},
        {"passes": 3},
        {"groups": 2},
        {"groups": 1},
        {"groups": 100},
        {"compression": hvd.Compression.fp16, "tolerance": 5e-3},
        {"compression": hvd.Compression.bf16, "tolerance": 4e-2},
        {"compression": hvd.Compression.fp16, "groups": 2, "tolerance": 5e-3},
    ],
    ids=str,
)
def test_ways_to_wrap(wrap: Dict[str, Any]) -> None:
    compare("sgd", **wrap)
    compare("adam", **wrap)


@on_ranks(2, 3)
def test_groups_of_parameters() -> None:
    model, reference = make_model(), Reference(OPTIMIZERS["sgd"], hvd.size())
    parameters = list(model.parameters())
    groups = [parameters[3:5], [parameters[0]]]
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["sgd"](parameters), op=hvd.adasum, groups=groups)
    for parts in batches(3):
        reference.step(lambda rank, net: loss_of(net, parts[rank]).backward() is None)
        optimizer.zero_grad()
        loss_of(model, parts[hvd.rank()]).backward()
        optimizer.step()
    check(reference, model)


@on_ranks(2, 3)
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("unscale", [False, True])
def test_loss_scaling_with_an_overflow_on_one_rank(name: str, unscale: bool) -> None:
    """The rank that overflowed changes nothing itself and takes the others' change."""
    data = batches(4)
    model, reference = make_model(), Reference(OPTIMIZERS[name], hvd.size())
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS[name](model.parameters()), op=hvd.Adasum)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step, parts in enumerate(data):

        def compute(rank: int, net: torch.nn.Module) -> bool:
            loss_of(net, parts[rank]).backward()
            if unscale:
                clip_grad_norm_(net.parameters(), 0.1)
            return not (step == 2 and rank == 1)

        reference.step(compute)
        optimizer.zero_grad()
        loss = loss_of(model, parts[hvd.rank()])
        if step == 2 and hvd.rank() == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == (512.0 if hvd.rank() == 1 else 1024.0)
    check(reference, model)


@on_ranks(3, 4)
def test_process_set() -> None:
    members = hvd.add_process_set([0, hvd.size() - 1])
    data = batches(3)
    model, reference = make_model(), Reference(OPTIMIZERS["sgd"], 2)
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["sgd"](model.parameters()), op=hvd.Adasum, process_set=members)
    for parts in data:
        reference.step(lambda rank, net: loss_of(net, parts[members.ranks[rank]]).backward() is None)
        optimizer.zero_grad()
        loss_of(model, parts[hvd.rank()]).backward()
        optimizer.step()
    if members.included():
        for got, wanted in zip(model.parameters(), reference.models[0].parameters()):
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-9)
        assert_alike(model, members)
    hvd.remove_process_set(members)


@on_ranks(2, 3)
def test_unused_frozen_and_late_parameters() -> None:
    """A rank without a gradient adds no change; parameters may be unfrozen and added."""
    data = batches(6)
    model, reference = make_model(), Reference(OPTIMIZERS["sgd"], hvd.size())
    nets = [model, *reference.models]
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["sgd"](model.parameters()), op=hvd.Adasum)
    for net in nets:
        net[0].weight.requires_grad_(False)
    for step, parts in enumerate(data):
        if step == 3:
            for net in nets:
                net[0].weight.requires_grad_(True)

        def compute(rank: int, net: torch.nn.Module) -> bool:
            loss_of(net, parts[rank]).backward()
            if rank == 0:
                net[2].weight.grad = None
            return True

        reference.step(compute)
        optimizer.zero_grad()
        compute(hvd.rank(), model)
        optimizer.step()
    check(reference, model)


@on_ranks(2)
def test_complex_and_channels_last_parameters() -> None:
    torch.manual_seed(1)
    weight = torch.nn.Parameter(torch.randn(3, 2, dtype=torch.complex64))
    image = torch.nn.Parameter(torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last))
    sparse = torch.nn.Embedding(5, 2, sparse=True)
    starts = [p.detach().clone() for p in (weight, image, sparse.weight)]
    optimizer = hvd.DistributedOptimizer(optim.SGD([weight, image, sparse.weight], lr=1.0), op=hvd.Adasum)
    torch.manual_seed(hvd.rank())
    (weight.abs().square().sum() * (hvd.rank() + 1) + (image * torch.randn(2, 3, 2, 2)).sum()).backward()
    sparse(torch.tensor([hvd.rank()])).sum().backward()
    optimizer.step()
    for start, p in zip(starts, (weight, image, sparse.weight)):
        assert not torch.equal(start, p.detach())
    own = -2 * torch.view_as_real(starts[0]).double().numpy()
    wanted = ref.adasum([own, own * 2])
    got = torch.view_as_real(weight.detach() - starts[0]).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    changes = torch.zeros(5, 2)
    changes[:2] = -1  # orthogonal: they add up
    torch.testing.assert_close(sparse.weight.detach() - starts[2], changes)


@on_ranks(2)
def test_state_dicts_schedulers_closures_and_hooks() -> None:
    model = make_model()
    calls: List[str] = []
    optimizer = hvd.DistributedOptimizer(OPTIMIZERS["adam"](model.parameters()), op=hvd.Adasum)
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    batch = batches(1)[0][hvd.rank()]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0
    scheduler.step()
    assert calls == ["after"] and optimizer.param_groups[0]["lr"] == 0.005
    plain = OPTIMIZERS["adam"](make_model().parameters())
    plain.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(plain.state_dict())
    with optimizer.skip_synchronize(), optimizer.no_sync():
        optimizer.synchronize()
        optimizer.step(closure)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.float64))]})
    optimizer.set_backward_passes_per_step(2)
    optimizer.step(closure)
    assert_alike(model)


@on_ranks(2)
def test_two_optimizers_without_names() -> None:
    first, second = make_model(1), torch.nn.Linear(3, 2).double()
    hvd.broadcast_parameters(second.state_dict(), 0)
    optimizers = [
        hvd.DistributedOptimizer(OPTIMIZERS["sgd"](net.parameters()), op=hvd.Adasum) for net in (first, second)
    ]
    for parts in batches(4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        second(first(parts[hvd.rank()][0])).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    assert_alike(torch.nn.ModuleList([first, second]))


@on_ranks(2)
def test_bad_arguments() -> None:
    plain = OPTIMIZERS["sgd"](make_model().parameters())
    with pytest.raises(ValueError, match="Average only"):
        hvd.DistributedOptimizer(plain, op=hvd.Adasum, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError):
        hvd.orthogonality("a tensor that nobody has seen")
