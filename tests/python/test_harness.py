"""The harness itself: what ranks.py reports."""

from __future__ import annotations

import __main__
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest
import rueda
from ranks import Job, Server, on_ranks


@on_ranks(1, 3)
@pytest.mark.parametrize("value", [1, "two"])
def test_runs_on_all_ranks(value: object) -> None:
    assert rueda.size() in (1, 3)
    assert value in (1, "two")


@on_ranks(2)
def fails_on_rank_1() -> None:
    assert rueda.rank() == 0, "what went wrong"


@on_ranks(2)
def hangs_on_rank_1() -> None:
    time.sleep(1000 * rueda.rank())


@on_ranks(2)
def dies_on_rank_1() -> None:
    if rueda.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@on_ranks(2)
def is_as_begun_anew() -> None:
    import rueda.numpy as hvd

    mine = [random.random(), np.random.random(), float(os.getpid())]
    everyone = hvd.allgather(np.array([mine]))
    assert all(len(set(column)) == 2 for column in everyone.T), everyone
    assert os.environ["RANKS_GREETING"] == "hello" and os.environ["RUEDA_RANK"] == str(rueda.rank())
    assert __main__.__name__ == "__main__" and sys.argv[0].endswith("rank_worker.py")
    assert sys.stdin.read() == ""


@pytest.fixture(params=[(), ("numpy",)], ids=["anew", "forked"])
def pair(request: pytest.FixtureRequest) -> Iterator[Job]:
    """Ranks that begin anew, and such that are forked."""
    job = Job((2, (("RANKS_GREETING", "hello"),), request.param))
    yield job
    job.stop(kill=True)


def test_forked_ranks_are_as_those_that_begin_anew(pair: Job) -> None:
    pair.run(__name__, "is_as_begun_anew", {}, 30)


def test_a_rank_that_dies_is_shown(pair: Job) -> None:
    with pytest.raises(pytest.fail.Exception, match="rank 1 of 2:\nthe process has ended"):
        pair.run(__name__, "dies_on_rank_1", {}, 30)


@pytest.mark.parametrize(
    "line, code",
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGABRT)", -signal.SIGABRT),
    ],
)
def test_a_forked_script_ends_as_any(line: str, code: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import atexit, os, signal, sys, time\natexit.register(print, 'end')\n{line}\n")
    process = subprocess.run(
        [*Server.python((), ("numpy",)), str(script)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert (process.returncode, process.stdout) == (code, b"end\n" if code >= 0 else b""), process


def test_stopped_ranks_are_gone(pair: Job) -> None:
    pair.run(__name__, "is_as_begun_anew", {}, 30)
    ranks = [os.pidfd_open(pid) for pid in pair._pids]
    pair.stop(kill=True)
    for rank in ranks:
        assert select.select([rank], [], [], 30)[0] == [rank]
        os.close(rank)


def test_the_failing_rank_is_shown(pair: Job) -> None:
    with pytest.raises(pytest.fail.Exception, match="rank 1 of 2(.|\n)*what went wrong"):
        pair.run(__name__, "fails_on_rank_1", {}, 30)


def test_a_hanging_rank_is_shown(pair: Job) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"had not ended: \[1\](.|\n)*in hangs_on_rank_1"):
        pair.run(__name__, "hangs_on_rank_1", {}, 2)
