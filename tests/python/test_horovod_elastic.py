"""States that are saved, restored and made equal; the loop that starts a function over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: E402
from horovod.torch.elastic import state as states  # noqa: E402
from ranks import horovodrun, on_ranks, run_script  # noqa: E402


def fail_everywhere() -> None:
    hvd.allreduce(torch.zeros(1 + hvd.rank()), name="fail")


def all_equal(tensor: Any) -> bool:
    rows = hvd.allgather(tensor.detach().unsqueeze(0))
    return all(torch.equal(row, rows[0]) for row in rows)


@on_ranks(1, 2)
def test_a_state_is_rank_zeros_after_sync() -> None:
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + hvd.rank()), momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1 + hvd.rank())
    state = hvd.elastic.TorchState(model, optimizer, scheduler=scheduler, epoch=hvd.rank() + 5, seen=[hvd.rank()])
    state.sync()
    assert all_equal(model.weight)
    assert optimizer.param_groups[0]["lr"] == 0.1 and scheduler.step_size == 1
    assert (state.epoch, state.seen) == (5, [0])


@on_ranks(1, 2)
def test_restore_undoes_what_came_after_the_save() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, seen=[1])
    state.sync()
    weight = model.weight.detach().clone()
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    state.seen.append(2)
    state.restore()
    assert torch.equal(model.weight, weight) and not optimizer.state and state.seen == [1]
    assert all(parameter.grad is None for parameter in model.parameters())
    state.seen.append(3)
    state.commit()
    state.seen.append(4)
    state.restore()
    assert state.seen == [1, 3]
    other = torch.nn.Linear(2, 2)
    state.model = other  # saved at once, as it is now
    other.weight.data.zero_()
    state.restore()
    assert other.weight.abs().sum() > 0


@on_ranks(1, 3)
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_sampler_gives_every_sample_once(shuffle: bool) -> None:
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=shuffle, seed=4)
    mine = list(sampler)
    everyones = sorted(hvd.allgather_object(mine), key=len)
    assert len(mine) == len(sampler) == -(-10 // hvd.size())
    assert {index for each in everyones for index in each} == set(range(10))
    if not shuffle:
        assert mine[0] == hvd.rank()
    sampler.record_batch(0, 2)
    kept = sampler.state_dict()
    sampler.set_epoch(1)
    if shuffle:
        assert list(sampler) != mine
    sampler.load_state_dict(kept)
    assert list(sampler)[0] == mine[2]
    done = {index for each in everyones for index in each[:2]}
    assert {index for each in hvd.allgather_object(list(sampler)) for index in each} == set(range(10)) - done
    assert kept == {"epoch": 0, "processed_num": 2 * hvd.size()}
    sampler.load_state_dict({"epoch": 0, "processed_num": 10})
    assert list(sampler) == [] and len(sampler) == 0


@on_ranks(2)
def test_a_failure_restores_and_starts_over() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
    calls: List[int] = []
    resets: List[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @hvd.elastic.run
    def train(state: Any, steps: int, word: str = "") -> str:
        calls.append(state.step)
        while state.step < steps:
            # backward comes first: the wrapped optimizer must have noticed the new start by itself
            model(torch.full((1, 2), 1.0 + hvd.rank())).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            state.step += 1
            if state.step == 3 and len(calls) == 1:
                fail_everywhere()
            state.commit()
        return word

    assert train(state, 6, word="done") == "done"
    assert calls == [0, 2] and resets == [2]
    assert all_equal(model.weight)
    torch.testing.assert_close(model.weight.grad or torch.zeros(1, 2), torch.zeros(1, 2))


@on_ranks(2)
def test_changed_hosts_keep_what_is_not_saved() -> None:
    state = hvd.elastic.TorchState(step=0)
    calls: List[int] = []

    @hvd.elastic.run
    def train(state: Any) -> None:
        calls.append(state.step)
        state.step += 10
        if len(calls) == 1:
            if hvd.rank() == 0:  # rank 0 decides for all
                state.on_hosts_updated(1.0, 1)
            state.check_host_updates()
            raise AssertionError("not interrupted")
        state.check_host_updates()

    train(state)
    assert calls == [0, 10] and state.step == 20
    if hvd.rank() == 1:
        state.on_hosts_updated(2.0)
    state.check_host_updates()  # nobody but rank 1 knows: nothing happens
    with pytest.raises(HostsUpdatedInterrupt):
        if hvd.rank() == 0:
            state.on_hosts_updated(3.0)
        state.commit()


@on_ranks(2)
def test_what_fails_for_ever_ends() -> None:
    state = hvd.elastic.TorchState(step=0)
    calls: List[int] = []

    @hvd.elastic.run
    def train(state: Any, commits: bool) -> None:
        calls.append(state.step)
        state.step += 1
        if commits and state.step < 6:
            state.commit()
        fail_everywhere()

    with pytest.raises(HorovodInternalError, match="Mismatched"):
        train(state, False)
    assert calls == [0, 0, 0]
    calls.clear()
    with pytest.raises(HorovodInternalError, match="Mismatched"):
        train(state, True)
    assert len(calls) > 5  # each commit is a step forward


@on_ranks(1)
def test_the_users_own_errors_pass_through() -> None:
    @hvd.elastic.run
    def train(state: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train(hvd.elastic.TorchState())


@on_ranks(1)
def test_handlers_of_ones_own() -> None:
    class Counter:
        count = 0

    class CounterHandler(states.StateHandler):
        def save(self) -> None:
            self.kept = self.value.count

        def restore(self) -> None:
            self.value.count = self.kept

        def sync(self) -> None:
            self.value.count = hvd.broadcast_object(self.value.count)

    before = list(states.get_handler_registry())
    try:
        states.set_handler_registry([(Counter, CounterHandler), *before])
        state = hvd.elastic.TorchState(counter=Counter())
        state.sync()
        state.counter.count = 5
        state.restore()
        assert state.counter.count == 0
    finally:
        states.set_handler_registry(before)


LOSES_A_RANK = """
import os, signal
import torch
import horovod.torch as hvd

hvd.init()
worker = hvd.rank()
model = torch.nn.Linear(4, 1)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), named_parameters=model.named_parameters()
)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)


@hvd.elastic.run
def train(state):
    while state.step < 12:
        if worker == LOST and state.step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.full((2, 4), float(worker + 1))).sum().backward()
        optimizer.step()
        state.step += 1
        state.commit()


train(state)
weights = hvd.allgather(model.weight.detach())
alike = all(torch.equal(row, weights[0]) for row in weights)
print(f"worker {worker} is rank {hvd.rank()} of {hvd.size()}, {state.step} steps, alike: {alike}\\n", end="", flush=True)
"""


@pytest.mark.parametrize("lost", [0, 1])
def test_a_training_goes_on_without_a_rank_that_was_killed(tmp_path: Path, lost: int) -> None:
    script = tmp_path / "loses_a_rank.py"
    script.write_text(LOSES_A_RANK.replace("LOST", str(lost)))
    ended = run_script(3, script, launcher=(*horovodrun(), "--no-prefix", "--min-np", "2"))
    assert ended.code == 0, ended
    left = [worker for worker in range(3) if worker != lost]
    assert sorted(ended.out.splitlines()) == [
        f"worker {worker} is rank {rank} of 2, 12 steps, alike: True" for rank, worker in enumerate(left)
    ]
    assert f"rank {lost} " in ended.err and "2 ranks go on" in ended.err
