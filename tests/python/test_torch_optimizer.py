"""DistributedOptimizer with gradients, against the same training in one process on the joined batch."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks
from torch import optim
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from training import (
    OPTIMIZERS,
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
    values,
)


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name: str) -> None:
    wrapped = compare(OPTIMIZERS[name])
    assert isinstance(wrapped, type(OPTIMIZERS[name]([torch.zeros(1)])))


@on_ranks(1, 2)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum, hvd.Adasum])
def test_what_was_given_can_be_read(op: int) -> None:
    given: Dict[str, Any] = {"op": op, "process_set": hvd.global_process_set, "backward_passes_per_step": 3}
    given.update(sparse_as_dense=True, gradient_predivide_factor=2.0 if op == hvd.Average else 1.0)
    wrapped = hvd.DistributedOptimizer(sgd(make_model().parameters()), **given)
    assert {name: getattr(wrapped, name) for name in given} == given
    wrapped.set_backward_passes_per_step(2)
    assert wrapped.backward_passes_per_step == 2


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
        {"groups": 1},
        {"groups": 2},
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


@on_ranks(2, 3)
def test_a_compressor_of_the_user() -> None:
    compare(sgd, compression=Doubling, tolerance=1e-5)
    compare(sgd, compression=Doubling, tolerance=1e-5, set_to_none=False, groups=2)


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
