"""Start values and states that all ranks share, and what is said about mistakes."""

from __future__ import annotations

from typing import Any, List

import pytest
import reference as ref
import rueda.torch as hvd
import torch
from ranks import on_ranks
from rueda.exceptions import RuedaError
from torch import optim
from training import OPTIMIZERS, assert_alike, batches, make_model, train


@on_ranks(1, 2, 3)
def test_broadcast_parameters() -> None:
    for root in range(hvd.size()):
        model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).double()
        model[0].weight.data = model[0].weight.data.to(memory_format=torch.channels_last)
        model.register_buffer("flags", torch.tensor([True, False]) ^ (hvd.rank() == 0))
        model.register_parameter("phase", torch.nn.Parameter(torch.randn(2, dtype=torch.complex64)))
        torch.manual_seed(hvd.rank())
        for parameter in model.parameters():
            parameter.data.copy_(torch.randn_like(parameter))
        model[1].num_batches_tracked.fill_(hvd.rank() + 5)
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        assert_alike(model)
        assert model[1].num_batches_tracked == root + 5
        assert model.flags.tolist() == [root != 0, root == 0]
        model[0].bias.data.fill_(hvd.rank())
        hvd.broadcast_parameters(model.named_parameters(), root)
        assert (model[0].bias == root).all()
        values = [torch.full((2,), float(hvd.rank())), None]
        hvd.broadcast_parameters([("a", values[0]), ("b", None)], root)
        assert values[0].tolist() == [root, root]
    tied = torch.nn.Linear(3, 3)
    tied.other = tied.weight
    hvd.broadcast_parameters(tied.state_dict(), 0)
    lazy = torch.nn.LazyLinear(3)
    with pytest.raises(ValueError, match="no shape"):
        hvd.broadcast_parameters(lazy.state_dict(), 0)
    with pytest.raises(ValueError, match="neither"):
        hvd.broadcast_parameters(3, 0)  # type: ignore[arg-type]


@on_ranks(2, 3)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_broadcast_optimizer_state(name: str, wrapped: bool) -> None:
    """The root has trained alone, the others have not, or otherwise."""
    root = hvd.size() - 1
    model = make_model()
    optimizer = OPTIMIZERS[name](model.parameters())
    if hvd.rank() == root:
        train(model, optimizer, [parts[0] for parts in batches(2)])
        optimizer.param_groups[0]["lr"] = 0.125
    elif hvd.rank() == 0:
        train(model, optimizer, [parts[1] for parts in batches(1)])
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root)
    hvd.broadcast_optimizer_state(optimizer, root_rank=root)
    assert optimizer.param_groups[0]["lr"] == 0.125
    state = hvd.broadcast_object(optimizer.state_dict(), root)
    mine = optimizer.state_dict()
    assert mine["param_groups"] == state["param_groups"]
    torch.testing.assert_close(mine["state"], state["state"], rtol=0, atol=0)
    if not wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer)
    train(model, optimizer, [parts[hvd.rank()] for parts in batches(2)])
    assert_alike(model)


@on_ranks(2)
def test_broadcast_optimizer_state_special_cases() -> None:
    model = make_model()
    fresh = optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1))
    hvd.broadcast_optimizer_state(fresh, 0, model)  # before the first step: settings alone
    assert fresh.param_groups[0]["lr"] == 0.1
    groups = [{"params": [p], "lr": float(hvd.rank())} for p in model.parameters()]
    several = optim.SGD(groups, lr=1.0)
    hvd.broadcast_optimizer_state(several, 1)
    assert [group["lr"] for group in several.param_groups] == [1.0] * len(groups)
    rate = optim.Adam(model.parameters(), lr=torch.tensor(0.5 + hvd.rank()))
    hvd.broadcast_optimizer_state(rate, 0)
    assert rate.param_groups[0]["lr"].item() == 0.5
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(optim.LBFGS(model.parameters()), 0)


@on_ranks(2)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", [optim.SGD, optim.SparseAdam])
def test_before_the_first_step_gradients_are_there_after_broadcast_optimizer_state(kind: Any, wrapped: bool) -> None:
    """Scripts for Horovod, which makes a step there, read them; but nothing else has changed."""
    frozen, free = torch.nn.Parameter(torch.ones(2, dtype=torch.int32), requires_grad=False), torch.nn.Parameter(torch.ones(2, 3))
    optimizer = kind([frozen, free], lr=0.1)
    if kind is optim.SGD:
        optimizer.param_groups[0].update(weight_decay=0.5, momentum=0.9)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert frozen.grad is None and free.grad.is_sparse == (kind is optim.SparseAdam)
    assert not hvd.broadcast(free.grad.to_dense(), 0).any()
    assert free.tolist() == [[1] * 3] * 2 and not optimizer.state


# ---- Mistakes ---------------------------------------------------------------------------------------


@on_ranks(2, 3)
def test_ranks_that_disagree() -> None:
    """Every rank gets the same class and words; the job goes on."""
    odd = hvd.rank() == 1
    ones = torch.ones(4)
    cases: List[Any] = [
        ("[Ss]hape", lambda: hvd.allreduce(torch.ones(3 if odd else 4), name="shape")),
        ("type", lambda: hvd.allreduce(ones.double() if odd else ones, name="type")),
        ("operation", lambda: hvd.allreduce(ones, name="op", op=hvd.Max if odd else hvd.Sum)),
        ("scale", lambda: hvd.allreduce(ones, name="scale", prescale_factor=2.0 if odd else 1.0)),
        ("root", lambda: hvd.broadcast(ones, int(odd), name="root")),
        ("", lambda: hvd.allgather(torch.ones(2, 3 if odd else 2), name="gather")),
        ("", lambda: hvd.grouped_allreduce([ones, torch.ones(2 if odd else 3)], name="group")),
        ("", lambda: hvd.reducescatter(torch.ones(5 if odd else 6), name="scatter")),
    ]
    for words, call in cases:
        with pytest.raises(RuedaError, match=words) as caught:
            call()
        texts = hvd.allgather_object(str(caught.value))
        assert len(set(texts)) == 1, texts
        assert not isinstance(caught.value, ValueError)
    assert hvd.allreduce(ones, op=hvd.Sum)[0] == hvd.size()


@on_ranks(2)
def test_a_name_twice_in_flight() -> None:
    first = hvd.allreduce_async(torch.ones(2), name="twice") if hvd.rank() == 0 else None
    if hvd.rank() == 0:
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce_async(torch.ones(2), name="twice")
    hvd.barrier()
    first = first or hvd.allreduce_async(torch.ones(2), name="twice")
    assert hvd.synchronize(first).tolist() == [1, 1]


@on_ranks(1, 2)
def test_bad_arguments() -> None:
    ones = torch.ones(4)
    calls: List[Any] = [
        (ValueError, "not a torch.Tensor", lambda: hvd.allreduce_async([1.0])),
        (ValueError, "view_as_real", lambda: hvd.allreduce(torch.ones(2, dtype=torch.complex64))),
        (ValueError, "op", lambda: hvd.allreduce(ones, op=17)),
        (ValueError, "op", lambda: hvd.allreduce(ones, op=-1)),
        (ValueError, "(?i)adasum", lambda: hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum)),
        (ValueError, "", lambda: hvd.allreduce(torch.ones(2, dtype=torch.bool))),
        (ValueError, "root", lambda: hvd.broadcast(ones, 99)),
        (ValueError, "root", lambda: hvd.broadcast(ones, -1)),
        (ValueError, "splits", lambda: hvd.alltoall(ones, [4] * (hvd.size() + 1))),
        (ValueError, "splits", lambda: hvd.alltoall(ones, torch.ones(hvd.size()))),
        (ValueError, "", lambda: hvd.alltoall(ones, [3] * hvd.size())),
        (ValueError, "", lambda: hvd.alltoall(ones, [-4] + [8] * (hvd.size() - 1))),
        (ValueError, "", lambda: hvd.reducescatter(torch.tensor(1.0))),
        (ValueError, "255", lambda: hvd.allreduce(ones, name="n" * 300)),
        (ValueError, "add_process_set", lambda: hvd.allreduce(ones, process_set=hvd.ProcessSet([0]))),
        (ValueError, "", lambda: hvd.add_process_set([0, 99])),
        (ValueError, "twice", lambda: hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])),
    ]
    for kind, words, call in calls:
        if words == "twice":
            hvd.shutdown()
        with pytest.raises(kind, match=words):
            call()
    hvd.init()


@on_ranks(1, 2)
def test_before_init() -> None:
    hvd.shutdown()
    assert not hvd.is_initialized()
    calls: List[Any] = [
        hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size, hvd.is_homogeneous,
        lambda: hvd.allreduce(torch.ones(1)), lambda: hvd.allgather(torch.ones(1)), hvd.barrier, hvd.join,
        lambda: hvd.broadcast_object(1), lambda: hvd.allgather_object(1), lambda: hvd.metric_average(1.0),
        lambda: hvd.DistributedOptimizer(optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)),
        lambda: hvd.broadcast_parameters({"a": torch.ones(1)}, 0), lambda: hvd.add_process_set([0]),
        hvd.global_process_set.size, hvd.stats, hvd.orthogonality, lambda: hvd.start_timeline("/tmp/never.json"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match="init"):
            call()
    hvd.shutdown()  # twice is fine
    hvd.init()
    hvd.init()
    assert hvd.is_initialized()


@on_ranks(3)
def test_basics_and_process_sets() -> None:
    assert 0 <= hvd.rank() < hvd.size() and hvd.local_size() == hvd.size() and hvd.cross_size() == 1
    assert hvd.is_homogeneous() and hvd.transport() == "shm"
    assert hvd.stats()["operations"] >= 0
    hvd.shutdown()
    first = hvd.ProcessSet([1, 0])
    hvd.init(process_sets=[first])
    assert first.process_set_id == 1 and first.ranks == [0, 1] and first.size() == 2
    assert first.rank() == (hvd.rank() if hvd.rank() < 2 else -1) and first.included() == (hvd.rank() < 2)
    with pytest.raises(ValueError, match="exists"):
        hvd.add_process_set([1, 0])
    with pytest.raises(ValueError):
        hvd.add_process_set(first)
    alone = hvd.add_process_set([1])
    assert hvd.process_set_ids() == [0, 1, alone.process_set_id]
    assert hvd.get_process_set_by_id(alone.process_set_id) is alone
    hvd.shutdown()
    assert first.process_set_id is None and first.ranks == [0, 1]
    with pytest.raises(ValueError, match="comm"):
        hvd.init(comm=[0])
    assert not hvd.is_initialized()
    hvd.init()


@on_ranks(2)
def test_metrics_of_training_are_means() -> None:
    assert hvd.metric_average(torch.tensor([2.0 * hvd.rank()]), "loss") == 1.0
    total = hvd.allreduce(torch.tensor(1.0), name="metric")
    assert total.dim() == 0 and total.item() == 1.0
    ref.check(hvd.allreduce(ref.make((3,), torch.float32, hvd.rank())), ref.reduce(ref.make_all((3,), torch.float32), 0), torch.float32)
