"""Ctrl-C while a rank waits, or while what it waits for fails: ``KeyboardInterrupt``, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run_script

START = """
import ctypes, functools, os, signal, sys, threading, time
import numpy as np
import rueda
import rueda.numpy as hvd
from rueda.exceptions import RuedaError

rank = int(os.environ["RUEDA_RANK"])
flag = sys.argv[1]

def interrupt_soon():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

def raise_flag():
    open(flag, "w").close()

def await_flag():
    while not os.path.exists(flag):
        time.sleep(0.01)
"""

# The interpreter looks for signals between its instructions: here is none between the signal and the call.
BEHIND_A_SIGNAL = """
def behind_a_signal(call):
    interrupt = functools.partial(getattr(ctypes.CDLL(None), "raise"), int(signal.SIGINT))
    return list(map(functools.partial.__call__, [interrupt, functools.partial(call)]))
"""


def run(tmp_path: Path, body: str, size: int = 2) -> str:
    """What the ranks print, if all goes well."""
    script = tmp_path / "script.py"
    script.write_text(START + body)
    result = run_script(size, script, str(tmp_path / "flag"))
    assert result.code == 0, result
    return result.out


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("quitter", [0, 1])
def test_init_can_be_interrupted(tmp_path: Path, quitter: int, transport: str) -> None:
    """The others, which wait as well, learn at once who it was; the last rank is never there."""
    out = run(tmp_path, f"""
os.environ["RUEDA_TRANSPORT"] = "{transport}"
if rank == 2:
    await_flag()
    sys.exit()
if rank == {quitter}:
    interrupt_soon()
try:
    hvd.init()
    print("nobody was interrupted")
except KeyboardInterrupt:
    print("interrupted", hvd.is_initialized())
except RuedaError as error:
    print(error)
    raise_flag()
""", 3)
    assert "interrupted False" in out, out
    assert f"rank {quitter} was interrupted in rueda_init" in out, out


def test_a_process_set_can_be_left_to_the_others(tmp_path: Path) -> None:
    out = run(tmp_path, """
hvd.init()
if rank == 0:
    interrupt_soon()
    try:
        hvd.add_process_set([0])
    except KeyboardInterrupt:
        print("interrupted")
        raise_flag()
else:
    await_flag()
    hvd.add_process_set([0])
hvd.barrier()
""")
    assert "interrupted" in out, out


def test_eager_tensorflow_can_be_interrupted(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    out = run(tmp_path, """
import tensorflow as tf
import rueda.tensorflow as tensorflow_hvd
hvd.init()
if rank == 0:
    for call in (tensorflow_hvd.allreduce, tensorflow_hvd.allgather):
        interrupt_soon()
        try:
            call(tf.ones(2), name="x")
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    raise_flag()
else:
    await_flag()
""")
    assert out.count("interrupted") == 2, out


FAILS = BEHIND_A_SIGNAL + """
hvd.init()
handle = hvd.allreduce_async(np.ones(2 + rank), name="x")
while not hvd.poll(handle):
    time.sleep(0.01)
"""


def test_ctrl_c_comes_before_a_failure(tmp_path: Path) -> None:
    out = run(tmp_path, FAILS + """
try:
    behind_a_signal(handle.wait)
except KeyboardInterrupt as error:
    print("interrupted", error.__context__)
try:
    hvd.synchronize(handle)
except RuedaError as error:
    print("and later", error)
""")
    assert out.count("interrupted None") == 2 and out.count("and later tensor") == 2, out


def test_it_is_shown_as_what_it_is(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(START + FAILS + "behind_a_signal(handle.wait)\n")
    result = run_script(2, script, str(tmp_path / "flag"))
    assert result.code != 0
    assert "KeyboardInterrupt" in result.err, result
    assert "lost sys.stderr" not in result.err and "object address" not in result.err, result
