"""The life of a job as a script sees it: starting over, signals, forks, threads, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any, List

import pytest
import rueda.torch as hvd
import torch
from ranks import on_ranks, run_script, start_script
from rueda.exceptions import RuedaError
from training import assert_alike, batches, loss_of, make_model, train

HUNDRED = 100


@on_ranks(1, 2, timeout=120)
def test_init_and_shutdown_a_hundred_times() -> None:
    for i in range(HUNDRED):
        hvd.shutdown()
        hvd.init()
        assert hvd.allreduce(torch.tensor([i]), op=hvd.Sum).item() == i * hvd.size()
    threads = [name for name in os.listdir("/proc/self/task")]
    assert len(threads) < 40, "threads are left behind"
    assert len(os.listdir("/proc/self/fd")) < 200, "files are left open"


@on_ranks(2, timeout=120)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16], ids=["none", "fp16"])
def test_an_optimizer_that_lives_on(op: int, compression: Any) -> None:
    data = [parts[hvd.rank()] for parts in batches(12)]
    model = make_model()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters()), op=op, compression=compression)
    for start in range(0, 12, 2):
        train(model, optimizer, data[start : start + 2])
        gradients = [p.grad.clone() for p in model.parameters()]
        hvd.shutdown()
        for p, before in zip(model.parameters(), gradients):  # still readable, and writable
            assert torch.equal(p.grad, before)
            p.grad.mul_(2)
        if start % 4 == 0:
            optimizer.zero_grad()
        hvd.init()
    assert_alike(model)
    hvd.shutdown()
    gone = optimizer if op == hvd.Average else None
    del optimizer, gone
    hvd.init()


@on_ranks(2)
def test_an_optimizer_after_shutdown_says_so() -> None:
    model = make_model()
    batch = batches(2)[0][hvd.rank()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    train(model, optimizer, [batch])
    hvd.shutdown()
    optimizer.zero_grad()
    with pytest.raises((RuedaError, ValueError), match="init|shut"):
        loss_of(model, batch).backward()
        optimizer.step()
    hvd.init()
    optimizer.zero_grad()
    train(model, optimizer, [batch])
    assert_alike(model)


@on_ranks(2)
def test_handles_of_a_job_that_is_gone() -> None:
    """Waiting for them, or dropping them, is an error at most."""
    make = [
        lambda i: hvd.allreduce_async(torch.ones(9), name=f"gone.{hvd.rank()}.{i}"),
        lambda i: hvd.allgather_async(torch.ones(9), name=f"gone.{hvd.rank()}.{i}"),
        lambda i: hvd.grouped_allreduce_async([torch.ones(9)], name=f"gone.{hvd.rank()}.{i}"),
    ]
    pending = [call(i) for i, call in enumerate(make * 2)]
    ended = [hvd.allreduce_async(torch.ones(9), op=hvd.Sum), hvd.allgather_async(torch.ones(9))]
    hvd.barrier()
    hvd.shutdown()
    del pending[:3]
    for again in (False, True):
        if again:
            hvd.init()
        for handle in pending:
            with pytest.raises((RuedaError, ValueError)):
                hvd.synchronize(handle)
            assert hvd.poll(handle) in (True, False)
        for handle in ended:
            try:
                assert hvd.synchronize(handle).sum() == 18
            except (RuedaError, ValueError):
                pass
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(2)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
def test_memory_of_optimizers_that_are_gone(op: int) -> None:
    def used() -> int:
        rows = Path("/proc/self/smaps_rollup").read_text()
        return int(re.search(r"Pss_Shmem:\s+(\d+) kB", rows).group(1))  # type: ignore[union-attr]

    def once() -> Any:
        model = torch.nn.Linear(2000, 500)  # 4 MB
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=op)
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 2000)).sum().backward()
            optimizer.step()
        return weakref.ref(model.weight)

    before = used()
    for _ in range(4):
        assert once()() is None, "a parameter lives on"
    hvd.barrier()
    assert used() - before < 5_000, "memory of optimizers is not given back"


@on_ranks(2)
def test_threads_that_wait_while_another_shuts_down() -> None:
    errors: List[BaseException] = []

    def wait_for_ever(i: int) -> None:
        try:
            hvd.allreduce(torch.ones(2), name=f"only.here.{hvd.rank()}.{i}")
        except (RuedaError, ValueError) as error:
            errors.append(error)

    threads = [threading.Thread(target=wait_for_ever, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    hvd.barrier()
    time.sleep(0.2)  # so that they are inside their wait
    hvd.shutdown()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(errors) == 3
    assert all("shut" in str(error).lower() for error in errors), errors
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(2)
def test_operations_from_several_threads() -> None:
    results: List[Any] = []

    def work(i: int) -> None:
        for step in range(20):
            results.append(hvd.allreduce(torch.full((5,), float(i)), name=f"thread{i}.{step}", op=hvd.Sum)[0].item() - 2 * i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.0] * 80


@on_ranks(2)
def test_fork_after_init() -> None:
    """A child has no part in the job: calls fail at once, its end does not hurt, memory is the parent's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            hvd.allreduce(torch.ones(1))
        except ValueError as error:
            said = str(error).encode()
        except BaseException as error:
            said = b"wrong: " + repr(error).encode()
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    text = os.read(reader, 1000).decode()
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    assert "fork" in text and "wrong" not in text, text
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@on_ranks(2)
def test_a_forked_child_may_leave_by_exit() -> None:
    import multiprocessing

    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(abs, range(4)) == [0, 1, 2, 3]
    child = context.Process(target=hvd.shutdown)
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


# ---- Jobs of their own ------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text("import time, sys, os, signal\nimport rueda\nrueda.init()\nrank = rueda.rank()\n" + text)
    return path


WAIT = """
import rueda._native as native
import ctypes
buffer = (ctypes.c_float * 4)()
def wait_for_ever():
    tensor = (ctypes.addressof(buffer), 9, (4,), buffer)
    native.submit(0, tensor, None, f"only.{rank}", 1, 1.0, 1.0, 0, 0, 0, None).wait()
"""


def test_ctrl_c_in_a_wait(tmp_path: Path) -> None:
    """KeyboardInterrupt arrives within the wait, as in any Python program."""
    script = write(tmp_path, WAIT + """
if rank == 0:
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    start = time.monotonic()
    try:
        wait_for_ever()
    except KeyboardInterrupt:
        print("interrupted", round(time.monotonic() - start))
else:
    time.sleep(3)
""")
    result = run_script(2, script)
    assert result.code == 0, result
    assert "interrupted 1" in result.out


def test_ctrl_c_of_the_whole_job(tmp_path: Path) -> None:
    script = write(tmp_path, WAIT + 'print("ready", flush=True)\nwait_for_ever()\n')
    process = start_script(2, script)
    assert process.stdout is not None
    for _ in range(2):
        assert "ready" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err or "SIGINT" in err, err


@pytest.mark.parametrize("where", ["before", "during"])
def test_a_rank_that_raises_ends_the_job(tmp_path: Path, where: str) -> None:
    """Its traceback is the last thing shown, whatever the others say about it."""
    script = write(tmp_path, WAIT + f"""
if rank == 1:
    time.sleep({0.0 if where == "before" else 1.0})
    raise LookupError("the cause")
wait_for_ever()
""")
    result = run_script(3, script)
    assert result.code != 0, result
    lines = [line for line in result.err.splitlines() if line.strip()]
    tail = "\n".join(lines[-4:])
    assert "LookupError: the cause" in tail and "rank 1" in tail, result


def test_memory_of_the_wrapper(tmp_path: Path) -> None:
    """At most one copy of the gradients more (two for Adasum), in memory of this process or shared."""
    script = write(tmp_path, """
import torch, rueda.torch as hvd
def resident():
    rows = dict(line.split(":") for line in open("/proc/self/smaps_rollup") if ":" in line and "kB" in line)
    return int(rows["Pss"].split()[0]) * 1024
def train(wrap, steps):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)])
    optimizer = wrap(torch.optim.SGD(model.parameters(), lr=0.01))
    x = torch.randn(4, 1024)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    size = sum(p.numel() * 4 for p in model.parameters())
    hvd.barrier()
    used = resident()
    hvd.barrier()
    return model, optimizer, used, size
start = resident()
_, _, plain, size = keep = train(lambda o: o, 3)
plain -= start
del keep, _
for op, copies in ((hvd.Average, 1), (hvd.Adasum, 2)):
    before = resident()
    kept = train(lambda o: hvd.DistributedOptimizer(o, op=op), 3)
    more = (kept[2] - before - plain) / size
    print(f"copies {op} {more:.2f} of {copies}", flush=True)
    assert more <= copies + 0.15, more
    del kept
""")
    result = run_script(2, script, timeout=120)
    assert result.code == 0, result
    assert len(re.findall("copies", result.out)) == 4


def test_examples_in_docstrings(tmp_path: Path) -> None:
    script = write(tmp_path, """
import doctest, importlib, pkgutil
rueda.shutdown()
failed = tried = 0
names = ["rueda"] + ["rueda." + m for m in ("_basics", "_process_sets", "_objects", "torch")]
import rueda.torch
names += [f"rueda.torch.{m.name}" for m in pkgutil.iter_modules(rueda.torch.__path__)]
for name in names:
    result = doctest.testmod(importlib.import_module(name))
    failed, tried = failed + result.failed, tried + result.attempted
print(failed, "of", tried, "failed")
sys.exit(1 if failed or tried < 5 else 0)
""")
    result = run_script(1, script, timeout=120)
    assert result.code == 0, result
