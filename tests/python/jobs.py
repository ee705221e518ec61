"""Starts jobs for the tests: `rueda` of the environment that pytest runs in, or TEST_PROGRAM."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIMIT_SECONDS = 240


def program():
    beside = Path(sys.executable).parent / "rueda"
    found = os.environ.get("TEST_PROGRAM") or (str(beside) if beside.exists() else shutil.which("rueda"))
    assert found, "there is no program rueda: install the wheel, or name it by TEST_PROGRAM"
    return found


def run(*command, code=0, **more):
    """Runs a command to its end; its outcome, with output as text. It must exit with `code`."""
    outcome = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        **more,
    )
    said = f"{outcome.stdout[-8000:]}\n{outcome.stderr[-8000:]}"
    assert outcome.returncode == code, f"{command} ended with {outcome.returncode}:\n{said}"
    return outcome


def run_ranks(count, *arguments, **more):
    """Runs Python with these arguments on so many ranks."""
    return run(program(), "run", "-np", count, sys.executable, *arguments, **more)


def check_on_ranks(count, name):
    """Runs the tests of ranks/NAME on every rank of one job: all ranks go through them in the same order,
    and the first that fails ends the job."""
    return run_ranks(count, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", HERE / "ranks" / name)
