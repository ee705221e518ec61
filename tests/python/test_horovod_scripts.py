"""Scripts for Horovod run unchanged under horovodrun; so does the launcher's own side of it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from horovod.common import basics  # noqa: E402
from ranks import HERE, environment, horovodrun, run_script  # noqa: E402

SCRIPTS = HERE / "horovod_scripts"
SECONDS = 180

CASES = [
    ("mnist.py", 2, []),
    pytest.param("mnist.py", 2, ["--use-adasum"], marks=pytest.mark.long),
    ("mnist.py", 2, ["--fp16-allreduce", "--gradient-predivide-factor", "2.0"]),
    ("clipping.py", 2, []),
    pytest.param("clipping.py", 3, [], marks=pytest.mark.long),
    ("process_sets.py", 4, []),
    ("join.py", 3, []),
    ("grouped.py", 2, []),
    ("resume.py", 2, []),
    ("accumulate.py", 2, []),
    ("mixed_precision.py", 2, []),
    ("elastic.py", 2, []),
    ("operations.py", 2, []),
]


@pytest.mark.parametrize("name, size, arguments", CASES, ids=lambda value: str(value))
def test_script(name: str, size: int, arguments: list) -> None:
    ended = run_script(size, SCRIPTS / name, *arguments, launcher=horovodrun(), timeout=SECONDS)
    assert ended.code == 0, ended
    assert ended.out.count("done") == size, ended


def test_timeline(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    ended = run_script(2, SCRIPTS / "timeline.py", str(path), launcher=horovodrun(), timeout=SECONDS)
    assert ended.code == 0, ended
    text = path.read_text()
    events = json.loads(text)
    assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE"} <= {event.get("name") for event in events}
    assert "allreduce.inside" in text and "allreduce.before" not in text and "allreduce.after" not in text


# Each line by one write: print() makes several without a buffer, and without prefixes other ranks' come between.
ENVIRONMENT = """
import os


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())


names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"]
say(*[os.environ["HOROVOD_" + name] for name in names], bool(os.environ["HOROVOD_HOSTNAME"]))
say(*[f"{name}={os.environ.get(name)}" for name in ("RUEDA_FUSION_THRESHOLD", "RUEDA_TIMELINE_MARK_CYCLES",
      "RUEDA_STALL_WARN", "RUEDA_LOG_LEVEL", "RUEDA_CACHE_CAPACITY")])
"""

CONFIG = """
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 10
  cache_capacity: 2048
  hierarchical_allreduce: false
autotune:
  enabled: false
  log_file: 'autotune.txt'
timeline:
  mark_cycles: true
stall_check:
  enabled: true
  warning_time_seconds: 120
logging:
  level: INFO
  hide_timestamp: true
"""


def test_workers_get_horovods_environment(tmp_path: Path) -> None:
    script, config = tmp_path / "environment.py", tmp_path / "config.yaml"
    script.write_text(ENVIRONMENT)
    config.write_text(CONFIG)
    launcher = (*horovodrun(), "--no-prefix", "--config-file", str(config), "--cache-capacity", "77")
    ended = run_script(2, script, launcher=launcher)
    assert ended.code == 0, ended
    lines = sorted(set(ended.out.splitlines()))
    assert lines[:2] == ["0 2 0 2 0 1 True", "1 2 1 2 0 1 True"]
    # of the file, but what the command line says wins
    assert lines[2:] == [
        f"RUEDA_FUSION_THRESHOLD={32 << 20} RUEDA_TIMELINE_MARK_CYCLES=1 RUEDA_STALL_WARN=120 "
        "RUEDA_LOG_LEVEL=INFO RUEDA_CACHE_CAPACITY=77"
    ]


@pytest.mark.parametrize("text", ["params: 3", "prams: {a: 1}", "params: [", "params: {no_such_option: 1}"])
def test_a_bad_config_file_is_told(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    ended = run_script(2, Path("unused.py"), launcher=(*horovodrun(), "--config-file", str(config)))
    assert ended.code == 2
    assert "config.yaml:" in ended.err or "--no-such-option" in ended.err


def test_a_failure_is_told_in_horovods_words(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import os, sys, time\nif os.environ['HOROVOD_RANK'] == '1':\n    sys.exit('why')\ntime.sleep(60)\n")
    ended = run_script(2, script, launcher=horovodrun())
    assert ended.code == 1
    assert "why" in ended.err
    assert "Horovod detected that one or more processes exited with non-zero status" in ended.err
    assert "Process name: 1\nExit code:    1\n" in ended.err


def horovodrun_alone(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*horovodrun(), *words], env=environment(), capture_output=True, text=True, timeout=SECONDS
    )


def test_check_build_and_version() -> None:
    for option in ("-cb", "--check-build"):
        build = horovodrun_alone(option)
        assert build.returncode == 0, build
        assert "Horovod v0.28.1" in build.stdout
        assert "[X] PyTorch" in build.stdout and "[ ] MXNet" in build.stdout and "[X] Gloo" in build.stdout
        assert ("[X] TensorFlow" in build.stdout) == (importlib.util.find_spec("tensorflow") is not None)
        assert build.stdout.count("[X] MPI") == 2 * basics.mpi_built()
        assert build.stderr == ""  # nothing of what frameworks print when they are imported
    assert horovodrun_alone("--version").stdout == "0.28.1\n"


FUNCTION = """
import horovod
import horovod.torch as hvd
import torch


def total(start, step=1.0):
    hvd.init()
    return hvd.allreduce(torch.tensor(start + step * hvd.rank()), op=hvd.Sum).item()


def fails():
    raise KeyError("what went wrong")


if __name__ == "__main__":
    import function

    assert horovod.run(function.total, (10.0,), {"step": 2.0}, num_proc=2) == [22.0, 22.0]
    assert horovod.run(function.total, args=(1.0,), np=2, use_gloo=True, verbose=False) == [3.0, 3.0]
    try:
        horovod.run(function.fails, num_proc=1)
    except RuntimeError as error:
        assert "what went wrong" in str(error), error
        print("done")
"""


def test_a_function_on_ranks(tmp_path: Path) -> None:
    script = tmp_path / "function.py"
    script.write_text(FUNCTION)
    ended = subprocess.run(
        [*horovodrun()[:2], sys.executable, str(script)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0 and "done" in ended.stdout, ended


def test_bad_usage() -> None:
    ended = horovodrun_alone("-np", "2")
    assert ended.returncode == 2 and "which command?" in ended.stderr
    ended = horovodrun_alone("-np", "2", "--max-np", "2", sys.executable, "x.py")
    assert ended.returncode == 2 and "elastic" in ended.stderr
