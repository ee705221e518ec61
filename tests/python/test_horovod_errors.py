"""What goes wrong, by Horovod's classes and words: the same on all ranks, and the job goes on after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, List

import pytest

torch = pytest.importorskip("torch")

import horovod.torch as hvd  # noqa: E402
from horovod.common.exceptions import HorovodInternalError  # noqa: E402
from ranks import horovodrun, on_ranks, run_script  # noqa: E402


def fails_alike(call: Callable[[], Any], *words: str) -> None:
    """All ranks raise HorovodInternalError with one sentence, and can go on."""
    with pytest.raises(HorovodInternalError) as caught:
        call()
    sentences = hvd.allgather_object(str(caught.value))
    assert len(set(sentences)) == 1
    for each in words:
        assert each in sentences[0]
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@on_ranks(2, 3)
def test_data_types() -> None:
    dtype = torch.float32 if hvd.rank() == 0 else torch.int32
    fails_alike(
        lambda: hvd.allreduce(torch.zeros(3, dtype=dtype), name="types"),
        "'allreduce.types'",
        "Mismatched data types: One rank had type float32, but another rank had type int32.",
        "rank 0 and rank 1",
    )


@on_ranks(2, 3)
def test_shapes() -> None:
    shape = [17] if hvd.rank() == 0 else [17, 2]
    fails_alike(
        lambda: hvd.allreduce(torch.zeros(shape), name="shapes"),
        "Mismatched ALLREDUCE tensor shapes: One rank sent a tensor of shape [17], but another rank sent a "
        "tensor of shape [17, 2].",
    )
    fails_alike(
        lambda: hvd.broadcast(torch.zeros(shape), 0, name="shapes"), "Mismatched BROADCAST tensor shapes"
    )
    width = 2 + hvd.rank()
    fails_alike(
        lambda: hvd.allgather(torch.zeros(4, width), name="shapes"),
        "Mismatched ALLGATHER tensor shapes",
        "only the first dimension may differ",
    )
    fails_alike(
        lambda: hvd.alltoall(torch.zeros(hvd.size(), width), name="shapes"), "Mismatched ALLTOALL tensor shapes"
    )
    fails_alike(
        lambda: hvd.reducescatter(torch.zeros(shape), name="shapes"), "Mismatched REDUCESCATTER tensor shapes"
    )


@on_ranks(2)
def test_operations() -> None:
    def call() -> Any:
        # names carry the operation, so the engine's own is needed to mix them up
        tensor = torch.zeros(2)
        if hvd.rank() == 0:
            return hvd.allreduce(tensor, name="x")
        from rueda import _native
        from rueda.torch import _tensors

        return _native.submit(1, _tensors.native(tensor), None, "allreduce.x", 0, 1.0, 1.0, 0, 0, 0, None).wait()

    fails_alike(call, "Mismatched operations: One rank did an ALLREDUCE, but another rank did an ALLGATHER.")


@on_ranks(2, 3)
def test_root_ranks() -> None:
    root = min(hvd.rank(), 1)
    fails_alike(
        lambda: hvd.broadcast(torch.zeros(2), root, name="roots"),
        "Mismatched BROADCAST root ranks: One rank specified root rank 0, but another rank specified root rank 1.",
    )


@on_ranks(2, 3)
def test_scales_and_reductions() -> None:
    scale = 1.0 + hvd.rank()
    for name in ("prescale_factor", "postscale_factor"):
        fails_alike(
            lambda: hvd.allreduce(torch.zeros(2), name=name, **{name: scale}),
            "Mismatched prescale and/or postscale factors",
        )
    op = hvd.Sum if hvd.rank() == 0 else hvd.Max
    fails_alike(
        lambda: hvd.allreduce(torch.zeros(2), name="ops", op=op), "Mismatched reduction operation", "sum", "max"
    )
    op = hvd.Sum if hvd.rank() == 0 else hvd.Adasum
    fails_alike(lambda: hvd.allreduce(torch.zeros(2), name="ops", op=op), "Mismatched reduction operation")


@on_ranks(2, 3)
def test_a_group_fails_as_one() -> None:
    rows = 3 if hvd.rank() == 0 else 4
    fails_alike(
        lambda: hvd.grouped_allreduce([torch.zeros(5), torch.zeros(rows)], name="group"),
        "Mismatched ALLREDUCE tensor shapes",
    )


@on_ranks(2)
def test_bad_arguments_are_value_errors() -> None:
    cases: List[Callable[[], Any]] = [
        lambda: hvd.allreduce(torch.zeros(1), average=True, op=hvd.Sum),
        lambda: hvd.broadcast(torch.zeros(1), root_rank=99),
        lambda: hvd.alltoall(torch.zeros(4), splits=[1, 2, 3]),
        lambda: hvd.alltoall(torch.zeros(4), splits=[1, 1]),
        lambda: hvd.allreduce([1.0, 2.0]),
        lambda: hvd.allreduce(torch.zeros(2, dtype=torch.complex64)),
        lambda: hvd.add_process_set([0, 99]),
        lambda: hvd.broadcast_optimizer_state(torch.optim.LBFGS([torch.zeros(1, requires_grad=True)]), 0),
        lambda: hvd.broadcast_parameters(3, 0),
        lambda: hvd.init(comm=[0, 7]) if not hvd.shutdown() else None,
    ]
    for case in cases:
        with pytest.raises(ValueError):
            case()
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(2)
def test_reducescatter_has_no_adasum() -> None:
    for call in (hvd.reducescatter, hvd.reducescatter_async):
        with pytest.raises(RuntimeError, match="reducescatter has no Adasum"):
            call(torch.zeros(2), op=hvd.Adasum)


@on_ranks(2)
def test_a_name_in_flight_twice_is_a_value_error() -> None:
    if hvd.rank() == 0:
        first = hvd.allreduce_async(torch.ones(3), name="twice")
        with pytest.raises(ValueError, match="twice"):
            hvd.allreduce_async(torch.ones(3), name="twice")
        hvd.barrier(hvd.global_process_set)
    else:
        hvd.barrier(hvd.global_process_set)
        first = hvd.allreduce_async(torch.ones(3), name="twice")
    assert hvd.synchronize(first).tolist() == [1, 1, 1]


@on_ranks(2)
def test_optimizer_arguments() -> None:
    model = torch.nn.Linear(2, 2)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    named = list(model.named_parameters())
    wrong = [
        {"named_parameters": [named[0]]},
        {"named_parameters": [named[0], (named[0][0], named[1][1])]},
        {"named_parameters": [parameter for _, parameter in named]},
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
        {"backward_passes_per_step": 0},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError):
            hvd.DistributedOptimizer(plain, **arguments)


@on_ranks(2)
def test_process_sets() -> None:
    pair = hvd.add_process_set([0, 1]) if hvd.size() > 2 else hvd.add_process_set(hvd.ProcessSet([0]))
    with pytest.raises(ValueError):
        hvd.add_process_set(pair.ranks)
    with pytest.raises(ValueError):
        hvd.add_process_set(pair)
    assert hvd.remove_process_set(pair) is True
    assert hvd.remove_process_set(pair) is False
    assert hvd.remove_process_set(hvd.global_process_set) is False
    hvd.shutdown()
    with pytest.raises(ValueError):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
    hvd.init(process_sets="dynamic")


@on_ranks(3)
def test_join_lets_only_allreduce_go_on() -> None:
    if hvd.rank() == 0:
        assert hvd.join() == 2
        return
    total = hvd.allreduce(torch.ones(2), name="joined", op=hvd.Sum)
    assert total.tolist() == [2, 2]
    mean = hvd.allreduce(torch.full((2,), 3.0), name="joined.mean")
    assert mean.tolist() == [2, 2]  # of three ranks, one of which gives zeros
    with pytest.raises(HorovodInternalError):
        hvd.allgather(torch.ones(2), name="joined.gather")
    if hvd.rank() == 2:
        time.sleep(0.2)  # so that this is the last one
    assert hvd.join() == 2


@on_ranks(2)
def test_after_shutdown_of_another_rank() -> None:
    if hvd.rank() == 1:
        hvd.shutdown()
    else:
        with pytest.raises(HorovodInternalError, match="rank 1 has shut down"):
            hvd.allreduce(torch.ones(2), name="alone")
        hvd.shutdown()
    hvd.init()


LOST = """
import os, horovod.torch as hvd, torch
hvd.init()
hvd.allreduce(torch.ones(1))
if hvd.rank() == 1:
    os.kill(os.getpid(), 9)
try:
    hvd.allreduce(torch.ones(1), name="after")
except hvd.HorovodInternalError as error:
    print("HorovodInternalError:", error, flush=True)
    raise
"""


def test_a_lost_rank(tmp_path: Path) -> None:
    script = tmp_path / "lost.py"
    script.write_text(LOST)
    ended = run_script(2, script, launcher=horovodrun(), timeout=120)
    assert ended.code != 0
    assert "rank 1" in ended.out + ended.err
    assert "Horovod detected that one or more processes exited with non-zero status" in ended.err


STALL = """
import time, horovod.torch as hvd, torch
hvd.init()
if hvd.rank() == 1:
    time.sleep(3)
hvd.allreduce(torch.ones(1), name="late")
"""


def test_a_stall_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "stall.py"
    script.write_text(STALL)
    options = ("--stall-check-warning-time-seconds", "1")
    ended = run_script(2, script, launcher=(*horovodrun(), *options), timeout=120)
    assert ended.code == 0
    assert "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks" in ended.err
    assert "'allreduce.late' (Missing ranks: 1)" in ended.err
