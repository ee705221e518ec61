"""rueda.run: functions on many ranks, their results, and what goes wrong."""

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import rueda
from ranks import program
from rueda.exceptions import RuedaError, WorkerError

try:
    import cloudpickle
except ImportError:
    cloudpickle = None

LIMIT_SECONDS = 240  # longer than any test
needs_cloudpickle = pytest.mark.skipif(cloudpickle is None, reason="cloudpickle is not installed")


@pytest.fixture(autouse=True)
def launcher_in_path(monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(program()), prepend=os.pathsep)


def join(first, *, last):
    """What every rank returns: who it is, with its arguments."""
    rueda.init()
    return (first, rueda.rank(), rueda.size(), last)


def test_results_come_by_rank():
    assert rueda.run(join, ("a",), {"last": "z"}, np=3) == [("a", rank, 3, "z") for rank in range(3)]


def test_one_rank_and_no_arguments():
    assert rueda.run(os.getcwd, np=1) == [os.getcwd()]


@needs_cloudpickle
def test_lambdas_and_closures():
    factor = 7
    assert rueda.run(lambda value: value * factor, (6,), np=2) == [42, 42]


@needs_cloudpickle
def test_classes_come_back_as_themselves():
    class Point:
        x = 1

    assert all(type(each) is Point for each in rueda.run(Point, np=2))


def big(count):
    return bytes(count) + os.environ["RUEDA_RANK"].encode()


def test_large_arguments_and_results():
    count = 3 << 20
    assert rueda.run(len, (bytes(count),), np=2) == [count, count]
    assert [result[-1:] for result in rueda.run(big, (count,), np=2)] == [b"0", b"1"]


def say():
    print("to stdout")
    print("to stderr", file=sys.stderr)
    return sys.stdin.read()


def test_output_is_passed_on():
    stdout, stderr = io.StringIO(), io.StringIO()
    assert rueda.run(say, np=2, stdout=stdout, stderr=stderr) == ["", ""]
    assert sorted(stdout.getvalue().splitlines()) == ["[0]: to stdout", "[1]: to stdout"]
    assert sorted(stderr.getvalue().splitlines()) == ["[0]: to stderr", "[1]: to stderr"]


def test_variables_and_options():
    assert rueda.run(os.getenv, ("COLOUR",), np=1, env={"COLOUR": "red"}) == ["red"]
    assert rueda.run(os.getcwd, np=1, options=["--directory", "/"]) == ["/"]
    assert rueda.run(os.getenv, ("RUEDA_SIZE",), hosts=["localhost:2"]) == ["2", "2"]


def test_horovod_run_is_the_same():
    horovod = pytest.importorskip("horovod")
    assert horovod.run(join, args=("a",), kwargs={"last": "z"}, num_proc=2) == [("a", rank, 2, "z") for rank in range(2)]
    assert horovod.run(os.getcwd, num_proc=2, hosts="localhost:2", executable=sys.executable) == [os.getcwd()] * 2


# ---- What goes wrong --------------------------------------------------------------------------------


def fail_on(rank):
    rueda.init()
    if rueda.rank() == rank:
        raise KeyError("no such thing")
    rueda._native.barrier(0).wait()


def test_an_exception_comes_back_with_rank_and_traceback():
    with pytest.raises(WorkerError, match="rank 1 failed: KeyError: 'no such thing'") as caught:
        rueda.run(fail_on, (1,), np=3, stderr=io.StringIO())
    assert caught.value.rank == 1
    assert isinstance(caught.value.exception, KeyError)
    assert caught.value.__cause__ is caught.value.exception
    assert "in fail_on" in caught.value.traceback and "_worker" not in caught.value.traceback


class Stubborn(Exception):
    """One that cannot be read back."""

    def __init__(self, one, two):
        super().__init__("stubborn")


def raise_stubborn():
    raise Stubborn(1, 2)


def test_exceptions_that_do_not_travel_are_told_as_text():
    with pytest.raises(WorkerError, match="rank 0 failed: .*Stubborn: stubborn") as caught:
        rueda.run(raise_stubborn, np=1, stderr=io.StringIO())
    assert caught.value.exception is None


def die(how):
    if os.environ["RUEDA_RANK"] == "1":
        how(*([os.getpid(), signal.SIGKILL] if how is os.kill else [3]))
    time.sleep(LIMIT_SECONDS)


@pytest.mark.parametrize("how, words", [(os.kill, "killed by SIGKILL"), (os._exit, "exited with 3")])
def test_a_rank_that_dies_is_named(how, words):
    with pytest.raises(WorkerError, match=f"rank 1 .*{words}") as caught:
        rueda.run(die, (how,), np=2, stderr=io.StringIO())
    assert caught.value.rank == 1 and caught.value.traceback == ""


def test_leaving_early_is_no_result():
    with pytest.raises(WorkerError, match="rank 0 ended without a result"):
        rueda.run(os._exit, (0,), np=1)
    with pytest.raises(WorkerError, match="rank 0 failed: SystemExit: 0"):
        rueda.run(sys.exit, (0,), np=1, stderr=io.StringIO())


def test_results_that_cannot_be_sent_are_named():
    with pytest.raises(WorkerError, match="rank 0 failed: TypeError: cannot pickle"):
        rueda.run(threading.Lock, np=1, stderr=io.StringIO())


@pytest.mark.parametrize("seconds", [1, 0.3])
def test_a_time_limit(seconds):
    said = io.StringIO()
    with pytest.raises(TimeoutError, match=f"within {seconds} s"):
        rueda.run(time.sleep, (LIMIT_SECONDS,), np=2, timeout=seconds, stderr=said)
    assert f"the job took longer than {seconds} s" in said.getvalue()


def test_bad_arguments():
    with pytest.raises(ValueError, match="np=4"):
        rueda.run(os.getcwd)
    with pytest.raises(ValueError, match="cannot be sent"):
        rueda.run(len, (threading.Lock(),), np=1)
    said = io.StringIO()
    with pytest.raises(RuedaError, match="could not be started"):
        rueda.run(os.getcwd, np=2, hosts="a:x", stderr=said)
    assert "is no host" in said.getvalue()


def test_without_cloudpickle_the_advice_is_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ValueError, match="install cloudpickle, or put the function into a module"):
        rueda.run(lambda: 1, np=1)


# ---- How it ends ------------------------------------------------------------------------------------

SLEEPER = """
    import os, time, rueda

    def sleep(folder):
        open(f"{folder}/{os.environ['RUEDA_RANK']}.{os.getpid()}", "w").close()
        time.sleep(1000)

    rueda.run(sleep, ("FOLDER",), np=2)
"""


def start_sleepers(folder):
    """A script that sleeps on two ranks; it, and their pids."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(SLEEPER).replace("FOLDER", str(folder)))
    process = subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(pids := [int(name.suffix[1:]) for name in folder.glob("[01].*")]) < 2:
        assert time.monotonic() < deadline and process.poll() is None, "the ranks did not start"
        time.sleep(0.05)
    return process, pids


def await_end(pids):
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, "a rank was left behind"
        time.sleep(0.05)


@needs_cloudpickle
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_nothing_is_left_however_it_ends(tmp_path, how):
    process, pids = start_sleepers(tmp_path)
    process.send_signal(how)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == -how
    assert how != signal.SIGINT or "KeyboardInterrupt" in said
    await_end(pids)


# ---- Other hosts ------------------------------------------------------------------------------------

# Hosts of network namespaces, each with its own sshd; see tests/cluster.
ON_HOSTS = """
    . "$1/tests/cli/common.sh"
    . "$1/tests/cluster/hosts.sh"
    hosts_up 2
    "$2" -c "$3" "localhost:1,$host1:1,$host2:2" $ssh
"""
GATHER = """
import os, sys, rueda
from rueda.exceptions import WorkerError

hosts, options = sys.argv[1], sys.argv[2:]
places = rueda.run(os.getenv, ("HOROVOD_HOSTNAME",), hosts=hosts, options=options)
assert len(set(places)) == 3 and places[2] == places[3], places
data = bytes(2 << 20)
assert rueda.run(bytes.__add__, (data, b"end"), hosts=hosts, options=options) == [data + b"end"] * 4
try:
    rueda.run(int, ("nine",), hosts=hosts, options=options)
except WorkerError as error:
    assert isinstance(error.exception, ValueError), error
    print("all is well")
"""


def test_functions_run_on_other_hosts():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        ["sh", "-c", textwrap.dedent(ON_HOSTS), "sh", root, sys.executable, GATHER],
        env={**os.environ, "TEST_PROGRAM": program()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    if done.returncode == 77:
        pytest.skip(done.stdout)
    assert done.returncode == 0 and "all is well" in done.stdout, done.stdout + done.stderr


@needs_cloudpickle
def test_the_example_of_the_docstring():
    pytest.importorskip("numpy")
    code = "import doctest, importlib; print(doctest.testmod(importlib.import_module('rueda._run')))"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS)
    assert "TestResults(failed=0, attempted=3)" in said.stdout
