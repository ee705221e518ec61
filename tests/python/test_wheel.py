"""The wheel, installed into an empty environment of every Python at hand: it needs nothing else.

TEST_WHEEL names the wheel; otherwise it is the newest of build/wheel and dist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 300
SYSTEM_LIBRARIES = ("linux-vdso", "libc.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "ld-")

ALLREDUCE = """
import numpy as np, rueda.numpy as hvd
hvd.init()
print(hvd.allreduce(np.arange(3.0) + hvd.rank(), op=hvd.Sum).tolist())
"""
LAZY = """
import sys, rueda
assert rueda.size.__doc__ and rueda.run
loaded = {"numpy", "torch", "tensorflow", "jax", "cloudpickle"} & set(sys.modules)
assert not loaded, loaded
print(rueda.__version__, rueda.__file__)
"""
# The example that opens the header.
EXAMPLE = [line[3:] for line in (ROOT / "include/rueda.h").read_text().splitlines() if line.startswith(" *     ")]


def run(*command: object, **more: object) -> str:
    """Runs a command to its end; what it has printed."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, **more  # type: ignore
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def find_pythons() -> List[str]:
    """One interpreter of each version from 3.10 on, from the path and from pyenv."""
    found: Dict[str, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python3.{minor}") for minor in range(10, 30)]
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python3"))]
    for path in [sys.executable, *filter(None, candidates)]:
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2], sys.version_info >= (3, 10))"
        said = subprocess.run([path, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        version, _, fits = said.stdout.partition(" ")
        if said.returncode == 0 and fits.strip() == "True":
            found.setdefault(version, path)
    return [found[version] for version in sorted(found, key=lambda text: int(text.partition(".")[2]))]


@pytest.fixture(scope="module")
def wheel() -> Path:
    built = [*ROOT.glob("build/wheel/rueda-*.whl"), *ROOT.glob("dist/rueda-*.whl")]
    if "TEST_WHEEL" in os.environ:
        return Path(os.environ["TEST_WHEEL"])
    if not built:
        pytest.skip("there is no wheel: make wheel")
    return max(built, key=lambda path: path.stat().st_mtime)


def clean_environment() -> Dict[str, str]:
    """Without what could stand in for something that the wheel lacks."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH", "RUEDA_PROGRAM")}


class Installed:
    """An environment that holds the wheel."""

    def __init__(self, interpreter: str, folder: Path, wheel: Path) -> None:
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self.program = self.bin / "rueda"
        self.folder = folder
        run(interpreter, "-m", "venv", "--without-pip", folder)
        self.pip("install", "-q", "--no-deps", wheel)

    def pip(self, *words: object) -> None:
        run(sys.executable, "-m", "pip", "--python", self.python, "--no-input", *words, env=clean_environment())

    def run(self, *command: object) -> str:
        return run(*command, env=clean_environment(), cwd=self.folder)


def between_in_the_long_tier(pythons: List[str]) -> List[Any]:
    """The oldest and the newest always; the wheel is the same for all."""
    last = len(pythons) - 1
    return [pytest.param(path, marks=[pytest.mark.long] * (0 < i < last)) for i, path in enumerate(pythons)]


@pytest.fixture(scope="module", params=between_in_the_long_tier(find_pythons()), ids=lambda path: Path(os.path.realpath(path)).name)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(request.param, tmp_path_factory.mktemp("environment"), wheel)


def test_one_wheel_holds_everything(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("__init__.py", "_native.abi3.so", "_native.pyi", "py.typed", "numpy/__init__.py", "include/rueda.h"):
        assert f"rueda/{part}" in names
    assert [name for name in names if name.startswith("rueda/lib/librueda.so.")] == ["rueda/lib/librueda.so.0"]
    assert [name for name in names if name.endswith("/scripts/rueda")]
    assert [name for name in names if name.endswith("/share/rueda/mpi/transport/mpi/plugin.h")]
    assert "-cp310-abi3-" in wheel.name


def test_nothing_of_a_framework_is_imported(installed: Installed) -> None:
    version, place = installed.run(installed.python, "-c", LAZY).split()
    assert place.startswith(str(installed.folder))
    assert version in installed.run(installed.program, "--version")


def test_nothing_else_must_be_installed(installed: Installed) -> None:
    package = installed.run(installed.python, "-c", "import rueda; print(rueda.__path__[0])").strip()
    files = [*Path(package).rglob("*.so*"), *Path(package).glob("bin/*"), installed.program]
    for file in files:
        if file.read_bytes()[:4] != b"\x7fELF":
            continue
        for line in installed.run("ldd", file).splitlines():
            name = Path(line.split()[0]).name
            assert package in line or name.startswith(SYSTEM_LIBRARIES), f"{file} needs {line}"


def test_ranks_combine_arrays(installed: Installed) -> None:
    installed.pip("install", "-q", "--only-binary", ":all:", "numpy")
    out = installed.run(installed.program, "run", "-np", 2, installed.python, "-c", ALLREDUCE)
    assert sorted(out.splitlines()) == ["[0]: [1.0, 3.0, 5.0]", "[1]: [1.0, 3.0, 5.0]"]


def test_functions_run_on_ranks(installed: Installed) -> None:
    code = "import os, rueda; print(rueda.run(os.getenv, ('RUEDA_RANK',), np=2))"
    assert installed.run(installed.python, "-c", code) == "['0', '1']\n"


def test_c_programs_use_it(installed: Installed) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (installed.folder / "sum.c").write_text("\n".join(EXAMPLE) + "\n")
    flags = installed.run(installed.python, "-m", "rueda.config", "--cflags", "--libs").split()
    installed.run("cc", "sum.c", *flags, "-o", "sum")
    out = installed.run(installed.program, "run", "-np", 4, "./sum")
    assert sorted(out.splitlines()) == [f"[{rank}]: rank {rank} of 4: 6" for rank in range(4)]


def test_the_mpi_plugin_can_be_made(installed: Installed) -> None:
    mpicc = next(filter(None, map(shutil.which, ("mpicc", "mpicc.openmpi", "mpicc.mpich"))), None)
    if mpicc is None:
        pytest.skip("no mpicc")
    home = {**clean_environment(), "XDG_DATA_HOME": str(installed.folder / "data")}
    made = run(installed.program, "doctor", "--build-mpi", "--mpicc", mpicc, env=home).splitlines()[0]
    assert made.startswith(str(installed.folder / "data")) and Path(made).exists()
