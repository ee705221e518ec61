"""The Python examples train, and say so; few steps of each."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ranks import Finished, environment, forking_python, run_script

TREE = Path(__file__).resolve().parents[2]
EXAMPLES = TREE / "examples"
SECONDS = 400  # a few steps, after importing a framework on a busy machine


def needs(framework: str) -> pytest.MarkDecorator:
    is_missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(is_missing, reason=f"{framework} is not installed")


def script(name: str, *values: Any, long: bool = False) -> Any:
    """A parameter: an example, skipped where its framework is missing; ``long``: for the long tier."""
    marks = [needs("torch" if name.startswith("torch/") else "tensorflow")]
    return pytest.param(name, *values, marks=marks + [pytest.mark.long] * long)


MNIST = [
    "torch/pytorch_mnist.py",
    "tensorflow/tensorflow2_mnist.py",
    "tensorflow/tensorflow1_mnist.py",
    "keras/keras_mnist.py",
]


def run(size: int, name: str, *arguments: str) -> Finished:
    """Runs an example to its end, which must be a good one."""
    ended = run_script(size, EXAMPLES / name, *arguments, timeout=SECONDS)
    assert ended.code == 0, ended
    return ended


def number(ended: Finished, pattern: str) -> float:
    """The number that stands in a line of rank 0's output."""
    found = re.search(r"^(?:\[0\]: )?" + pattern, ended.out, re.MULTILINE)
    assert found, ended
    return float(found[1])


ADASUM, AVERAGE = ["--use-adasum"], ["--fp16-allreduce", "--scale-lr"]
RUNS = [script(name, ADASUM, long="tensorflow2" in name or "keras" in name) for name in MNIST]
RUNS += [script(name, AVERAGE, long="torch" in name or "tensorflow1" in name) for name in MNIST]


@pytest.mark.parametrize("name, options", RUNS)
def test_mnist_learns_and_says_so(name, options, tmp_path):
    if "keras" in name and options == AVERAGE:
        options = [*options, "--checkpoint", str(tmp_path / "best.keras")]
    ended = run(2, name, "--limit", "1280", "--epochs", "2", "--log-interval", "10", *options)
    assert number(ended, r"test accuracy +([\d.]+)%") > 50
    assert number(ended, r"images/s +(\d+)") > 0
    assert number(ended, r"step +([\d.]+) ms median") > 0
    assert "step 40/40" in ended.out  # each rank has its own half of the images
    assert re.search(r"outcome +trained: the loss ended at", ended.out), ended
    told = re.search(r"of 2 add up \(([\d.]+)\)", ended.out)
    assert bool(told) == ("--use-adasum" in options)
    if told:
        assert 0 < float(told[1]) <= 1
        assert number(ended, r"  (?:\w+/)?dense1[./](?:weight|kernel)\S* +([\d.]+)") > 0
    if "--checkpoint" in options:  # the best model is kept, by one rank
        assert [path.name for path in tmp_path.iterdir()] == ["best.keras"]
        assert "model.weights.h5" in zipfile.ZipFile(tmp_path / "best.keras").namelist()


@needs("torch")
def test_synthetic_benchmark_compares_with_one_rank():
    small = ["--width", "4", "--image-size", "32", "--num-iters", "1", "--num-batches-per-iter", "2"]
    ended = run(2, "torch/pytorch_synthetic_benchmark.py", *small, "--use-adasum")
    for kind in ("one rank alone", "each for itself", "together"):
        assert number(ended, kind + r" +([\d.]+)") > 0
    assert "scaling efficiency" in ended.out


@needs("torch")
@pytest.mark.parametrize("options", [ADASUM, pytest.param([], marks=pytest.mark.long)], ids=["adasum", "average"])
def test_bert_gets_better_than_guessing(options):
    small = ["--layers", "1", "--width", "32", "--length", "32", "--epochs", "2", "--log-interval", "5"]
    ended = run(2, "torch/tiny_bert.py", *small, "--lr", "0.01", *options)
    assert number(ended, r"test loss +([\d.]+)") < 6.5, ended  # of 1000 words, guessing: 6.91
    assert number(ended, r"words/s +(\d+)") > 0


@needs("torch")
@pytest.mark.parametrize("parts", ["2", pytest.param("4", marks=pytest.mark.long)])
def test_model_and_data_parallel_has_the_gradients_of_one_process(parts):
    ended = run(4, "torch/model_and_data_parallel.py", "--check", "--limit", "640", "--model-ranks", parts)
    assert number(ended, r"gradients +those of one process, up to ([\d.e-]+)") < 1e-4


def run_alone(name: str, *arguments: str) -> subprocess.CompletedProcess:
    """Without the launcher, and without importing the framework anew."""
    python = forking_python("torch" if name.startswith("torch/") else "tensorflow")
    command = [*python, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment())


SMALL = [
    script("torch/tiny_bert.py", ["--layers", "1", "--width", "32", "--epochs", "1"], long=True),
    *[script(name, ["--limit", "320", "--epochs", "1"], long="tensorflow" in name) for name in MNIST],
]


@pytest.mark.parametrize("name, options", SMALL)
def test_adasum_of_one_process_is_its_own_step(name, options):
    ended = run_alone(name, "--use-adasum", *options)
    assert ended.returncode == 0, ended
    assert "add up" not in ended.stdout  # there is nobody to compare with


@pytest.mark.parametrize(
    "name, arguments, words",
    [
        *[
            script(name, ["--use-adasum", "--scale-lr"], "Adasum needs no other rate", long="tensorflow" in name)
            for name in MNIST
        ],
        script("torch/pytorch_mnist.py", ["--data-dir", "nowhere"], "--data-dir"),
        script("torch/pytorch_mnist.py", ["--batch-size", "0"], "--batch-size: 0 is less than 1"),
        script("torch/tiny_bert.py", ["--text", "nowhere.txt"], "nowhere.txt"),
        script("torch/model_and_data_parallel.py", ["--check", "--use-adasum"], "--check"),
        script("keras/keras_mnist.py", ["--checkpoint", "best"], "ends with .keras"),
    ],
)
def test_bad_usage_ends_with_2_and_says_why(name, arguments, words):
    ended = run_alone(name, *arguments)
    assert ended.returncode == 2, ended
    assert words in ended.stderr, ended


# ---- The reader of idx files


@pytest.fixture
def digits(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES / "common"))
    import digits

    return digits


def test_digits_are_those_of_the_files(digits):
    sums = dict(re.findall(r"\| (\S+ubyte) \|.*\| ([0-9a-f]{64}) \|", (TREE / "data/mnist/README.md").read_text()))
    test = digits.load(digits.DATA, "t10k")
    assert test.images.shape == (10000, 28, 28)
    header = b"\0\0\x08\x03\0\0\x27\x10\0\0\0\x1c\0\0\0\x1c"
    assert hashlib.sha256(header + test.images.tobytes()).hexdigest() == sums["t10k-images-idx3-ubyte"]
    assert len(digits.load(digits.DATA, "t10k", 7).labels) == 7


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "not an idx file"),
        (b"\0\0\x08\x03\0\0\0\x01", "not an idx file"),
        (b"\0\0\x08\x01\0\0\0\x02\x07", "1 elements instead of 2"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x01\x07")[:-9], "damaged"),
    ],
)
def test_damaged_files_are_named(digits, tmp_path, content, words):
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        digits.read_idx(path, 1)
    assert str(path) in str(caught.value)
