"""A real Horovod in the same environment: both write into one folder, and whoever came last wins."""

from __future__ import annotations

import importlib.metadata
import warnings
from pathlib import Path
from typing import List


def find_real_horovod() -> List[str]:
    """Signs of it: its distribution, and files of it in our folder."""
    signs = [
        f"the distribution horovod {each.version}" for each in importlib.metadata.distributions(name="horovod")
    ]
    here = Path(__file__).parent
    return signs + [f"its file {path}" for path in sorted(here.glob("*/mpi_lib*.so"))]


def report_real_horovod() -> None:
    """Warns, once in a process, with what to do."""
    signs = find_real_horovod()
    if signs:
        warnings.warn(
            f"rueda-horovod serves the package horovod, but a real Horovod is installed too ({', '.join(signs)}). "
            "Their files mix. Keep one: pip uninstall horovod rueda-horovod, then install the one you want",
            RuntimeWarning,
            stacklevel=3,
        )
