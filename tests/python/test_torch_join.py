"""Training after a join: a rank that had no data has not seen the steps of the others, and goes on with them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks
from torch import optim
from training import assert_alike, assert_same, batches, loss_of, make_model, sgd, shard, train


@on_ranks(2, 3)
@pytest.mark.parametrize("joins", [1, 2])
def test_a_rank_without_data_goes_on_with_the_others(joins: int) -> None:
    """Against one process, in which the batch of the last rank counts only afterwards."""
    data, size = batches(6), hvd.size()
    reference, model = make_model(), make_model()
    plain, optimizer = sgd(reference.parameters()), hvd.DistributedOptimizer(sgd(model.parameters()))

    def step_alone(parts: Any, ranks: int) -> None:
        plain.zero_grad()
        for batch in parts[:ranks]:
            (loss_of(reference, batch) / size).backward()
        plain.step()

    for join in range(joins):
        for step in range(2):
            step_alone(data[step], size - 1)
            if hvd.rank() < size - 1:
                train(model, optimizer, shard(data)[step : step + 1])
        last = hvd.join()
        assert last < size - 1
        hvd.broadcast_parameters(model.state_dict(), last)
        hvd.broadcast_optimizer_state(optimizer, last)
    for step in range(2, 6):
        step_alone(data[step], size)
    train(model, optimizer, shard(data)[2:])
    assert_same(model, reference)


@on_ranks(2, 3)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum], ids=["average", "adasum"])
def test_the_next_optimizer_of_such_a_rank(op: int) -> None:
    model = make_model()
    first = hvd.DistributedOptimizer(sgd(model.parameters()), op=op)
    if hvd.rank() > 0:
        train(model, first, shard(batches(1)))
    last = hvd.join()
    hvd.broadcast_parameters(model.state_dict(), last)
    hvd.broadcast_optimizer_state(first, last)
    other = torch.nn.Linear(5, 3).double()
    hvd.broadcast_parameters(other.state_dict(), 0)
    optimizers = [first, hvd.DistributedOptimizer(optim.Adam(other.parameters()), op=op)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # all begin alike
        for net, optimizer in zip([model, other], optimizers):
            train(net, optimizer, shard(batches(3)))
            assert_alike(net)


@on_ranks(2, 3)
def test_what_has_no_name_goes_on_after_a_join() -> None:
    ones = [torch.ones(2), torch.ones(3)]
    for _ in range(2):
        for _ in range(3 * hvd.rank()):
            hvd.allreduce(ones[0])
            hvd.grouped_allreduce(ones)
        assert hvd.join() == hvd.size() - 1
        assert hvd.allreduce(ones[0], op=hvd.Sum).tolist() == [hvd.size()] * 2
        assert hvd.grouped_allreduce(ones, op=hvd.Sum)[1].tolist() == [hvd.size()] * 3
