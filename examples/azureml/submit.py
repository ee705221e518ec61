"""Hands job.yaml to Azure ML: MNIST with Adasum on eight machines with four processes each.

    python submit.py              # fill in config_aml.json first
    python submit.py --dry-run    # shows the job, and sends nothing
    python submit.py --wait       # shows its output, and ends as it does

All options of `rueda submit` go with it. It needs the program `rueda` (`pip install .` in a clone) and, but for
--dry-run and --output, the Azure CLI with its extension ml.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WHEELS = ROOT / "docker" / "wheels"


def bring_wheel() -> None:
    """The image's folder gets the newest wheel that `make wheel` has made, if it has none."""
    if list(WHEELS.glob("rueda-*.whl")):
        return
    made = sorted((ROOT / "dist").glob("rueda-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
    if not made:
        sys.exit("submit.py: no wheel for the image; run `make wheel` in the project's folder first")
    WHEELS.mkdir(exist_ok=True)
    shutil.copy(made[-1], WHEELS)


def command(arguments: List[str]) -> List[str]:
    """Paths as Azure's CLI wants them: from the folder where it runs, which is this one."""
    return ["rueda", "submit", "job.yaml", "--to", "azureml", "--code", "..",
            "--docker", "../../docker", "--input", "DATA_DIR=../../data/mnist", *arguments]


def main() -> int:
    if shutil.which("rueda") is None:
        sys.exit("submit.py: no program rueda in PATH; install it with `pip install .` in a clone of Rueda")
    if not {"--dry-run", "--output", "--help"} & set(sys.argv[1:]):
        bring_wheel()
    return subprocess.run(command(sys.argv[1:]), cwd=HERE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
