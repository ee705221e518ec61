"""Every call by which the extensions ask for memory or objects fails once.

The extensions are built anew with tests/faults/fail_nth.c between them and the system, as the library is for
shortage_test.c, and put into a copy of the package: nothing of it is in what users get. What is tried, and what
must hold, is in shortage_native.py and shortage_tensorflow.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import List

import pytest
import rueda.config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FAIL_NTH = ROOT / "tests/faults/fail_nth.c"
FAIL_PYTHON = HERE / "fail_python.c"
LIMIT_SECONDS = 300

# CAN_FAIL(type, name, …, and type __wrap_name(…)
WRAPPED = re.compile(r"^(?:CAN_FAIL\w*\([^,]*, (\w+),|\w+ \**__wrap_(\w+)\(.*\)$)", re.MULTILINE)


def wrapped_calls(source: Path) -> List[str]:
    """The names of the calls that a source stands in for."""
    return [one or other for one, other in WRAPPED.findall(source.read_text())]


def build(target: Path, sources: Path, *failing: Path) -> None:
    """Makes a shared library of these sources in which the calls of `failing` can fail."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no compiler")
    flags = ["-shared", "-fPIC", "-O1", "-g", "-std=gnu11", f"-I{FAIL_NTH.parent}", f"-I{sysconfig.get_path('include')}"]
    wraps = [f"-Wl,--wrap={call}" for source in failing for call in wrapped_calls(source)]
    files = [*sorted(sources.glob("*.c")), *failing]
    libraries = [*rueda.config.compile_flags(), *rueda.config.link_flags(), "-lm", "-ldl", "-lpthread"]
    subprocess.run([compiler, *flags, *wraps, *map(str, files), "-o", str(target), *libraries], check=True)


def run_trials(script: str, package: Path) -> None:
    """Runs a script to its end with the package in this folder."""
    done = subprocess.run(
        [sys.executable, str(HERE / script)],
        env={**os.environ, "PYTHONPATH": str(package)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    assert "calls have failed" in done.stdout


@pytest.fixture()
def package(tmp_path: Path) -> Path:
    """A copy of the package, whose extensions a test replaces."""
    if not FAIL_NTH.exists():
        pytest.skip("only with the sources beside the tests")
    shutil.copytree(Path(rueda.__file__).parent, tmp_path / "rueda")
    return tmp_path


def test_the_extension_runs_short(package: Path) -> None:
    build(package / "rueda/_native.abi3.so", ROOT / "python/native", FAIL_NTH, FAIL_PYTHON)
    run_trials("shortage_native.py", package)


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed")
def test_the_operations_of_tensorflow_run_short(package: Path) -> None:
    build(package / "rueda/tensorflow/librueda_tf.so", ROOT / "python/native_tf", FAIL_NTH)
    run_trials("shortage_tensorflow.py", package)
