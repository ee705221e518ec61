"""The package is typed: what a type checker says of a user's script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rueda

pytest.importorskip("mypy")
pytest.importorskip("numpy")

LIMIT_SECONDS = 300
SCRIPT = """
import numpy as np
import rueda
import rueda.numpy as hvd

def work(rate: float) -> float:
    hvd.init()
    mean: np.ndarray = hvd.allreduce(np.ones(3) * rate, op=hvd.Sum, process_set=hvd.global_process_set)
    handle: hvd.Handle = hvd.allreduce_async(mean, name="mean")
    everyone: list[int] = hvd.allgather_object(hvd.rank())
    return float(hvd.synchronize(handle)[0]) + len(everyone)

losses: list[float] = rueda.run(work, args=(0.1,), np=2, hosts="localhost:2")
hvd.allreduce(np.ones(3), op="sum")
rueda.run(work, np="two")
rueda.rank("x")
"""


def test_right_calls_pass_and_wrong_ones_do_not(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path), script]
    package = Path(rueda.__file__).resolve().parent.parent  # mypy finds it by itself where it is installed
    found = {} if package.name == "site-packages" else {"MYPYPATH": str(package)}
    env = {**os.environ, **found}
    said = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS).stdout
    wrong = {int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line}
    last = SCRIPT.count("\n")
    assert wrong == {last - 2, last - 1, last}, said
