"""The package is typed: what a type checker says of it, of what the documentation shows, and of a user's script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest
import rueda

pytest.importorskip("mypy")
pytest.importorskip("numpy")

TREE = Path(__file__).resolve().parent.parent.parent
LIMIT_SECONDS = 550  # reading all of torch, on a busy machine
SCRIPT = """
import numpy as np
import rueda
import rueda.numpy as hvd

def work(rate: float) -> float:
    hvd.init()
    mean: np.ndarray = hvd.allreduce(np.ones(3) * rate, op=hvd.Sum, process_set=hvd.global_process_set)
    handle: hvd.Handle[np.ndarray] = hvd.allreduce_async(mean, name="mean")
    everyone: list[int] = hvd.allgather_object(hvd.rank())
    return float(hvd.synchronize(handle, timeout=5)[0]) + len(everyone)

op: rueda.ReduceOp = hvd.Average
losses: list[float] = rueda.run(work, args=(0.1,), np=2, hosts="localhost:2")
hvd.allreduce(np.ones(3), op="sum")
rueda.run(work, np="two")
rueda.rank("x")
"""
TORCH_SCRIPT = """
import rueda.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(2, 1)
optimizer: torch.optim.SGD = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Adasum)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
total: torch.Tensor = hvd.synchronize(hvd.allreduce_async(torch.ones(2), op=hvd.Sum))
rows: list[torch.Tensor] = hvd.grouped_allgather([torch.ones(2)])
last: int = hvd.join()
adam: torch.optim.Adam = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
hvd.DistributedOptimizer(model)
hvd.no_such_function()
"""
# What is around the lines that the documentation shows. Functions in them may be without types, and frameworks are.
AROUND = """
from typing import Any
import torch
import keras
import tensorflow as tf
dataset: torch.utils.data.Dataset[Any]
x: Any; y: Any; x_of_this_rank: Any; y_of_this_rank: Any; loss: Any; variables: Any
"""
FOR_TORCH = "model = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters())\n"
FOR_KERAS = "model: Any\noptimizer: Any\n"
FOR_TAPE = FOR_KERAS + "import rueda.tensorflow as hvd\n"
CONFIGURATION = """
[mypy]
strict = True
follow_imports = silent
warn_return_any = False
disallow_untyped_calls = False
disallow_untyped_decorators = False
disallow_subclassing_any = False
check_untyped_defs = True
%s
[mypy-tensorflow.*,keras.*,tf_keras.*]
ignore_missing_imports = True
"""


def check(tmp_path: Path, *arguments: Any, **env: str) -> List[str]:
    """What mypy finds wrong, with the package that is installed."""
    package = Path(rueda.__file__).resolve().parent.parent  # mypy finds it by itself where it is installed
    path = [] if package.name == "site-packages" else [str(package)]
    path += filter(None, [env.pop("MYPYPATH", "")])
    cache = tmp_path.parent / "mypy"  # of all tests of this run: reading torch takes long
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, *arguments]
    said = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **env, "MYPYPATH": os.pathsep.join(path)},
        cwd=TREE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    errors = [line for line in said.stdout.splitlines() if ": error:" in line]
    assert errors or said.returncode == 0, said.stdout
    return errors


def configure(tmp_path: Path, more: str = "") -> Path:
    file = tmp_path / "mypy.ini"
    file.write_text(CONFIGURATION % more)
    return file


def test_right_calls_pass_and_wrong_ones_do_not(tmp_path: Path) -> None:
    """The last three lines of each script are wrong."""
    pytest.importorskip("torch")
    scripts = {tmp_path / "for_numpy.py": SCRIPT, tmp_path / "for_torch.py": TORCH_SCRIPT}
    for file, script in scripts.items():
        file.write_text(script)
    said = check(tmp_path, "--strict", "--follow-imports=silent", *scripts)
    for file, script in scripts.items():
        wrong = {int(line.split(":")[1]) for line in said if file.name in line}
        last = script.count("\n")
        assert wrong == {last - 2, last - 1, last}, said


def test_both_packages_pass(tmp_path: Path) -> None:
    """rueda and horovod, as ``pyproject.toml`` says."""
    pytest.importorskip("torch")
    assert check(tmp_path, "--config-file", TREE / "pyproject.toml") == []


def test_what_the_documentation_shows_passes(tmp_path: Path) -> None:
    for file in ("README.md", "docs/python.md", "docs/tensorflow.md"):
        for i, lines in enumerate(re.findall(r"```python\n(.*?)```", (TREE / file).read_text(), re.DOTALL)):
            before = FOR_TORCH if "rueda.torch as hvd\n\nhvd" in lines else FOR_KERAS if "import rueda" in lines else FOR_TAPE
            text = AROUND + before + lines.replace("…", "...")
            (tmp_path / f"lines_{Path(file).stem}_{i}.py").write_text(text)
    snippets = sorted(tmp_path.glob("lines_*.py"))
    assert len(snippets) >= 6
    # torch's sampler has a parameter that nothing tells
    loose = "disallow_untyped_defs = False\ndisallow_incomplete_defs = False\ndisable_error_code = var-annotated"
    assert check(tmp_path, "--config-file", configure(tmp_path, loose), "--allow-redefinition", *snippets) == []


def test_the_examples_pass(tmp_path: Path) -> None:
    """All at once: no two of their files have the same name."""
    folders = [TREE / "examples" / name for name in ("common", "torch", "tensorflow", "keras")]
    path = os.pathsep.join(map(str, folders))
    files = sorted(file for folder in folders[1:] for file in folder.glob("*.py"))
    assert len(files) > 5 and check(tmp_path, "--config-file", configure(tmp_path), *files, MYPYPATH=path) == []
