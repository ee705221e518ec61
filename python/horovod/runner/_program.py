"""Where the program ``rueda`` is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import rueda


def find_program() -> str:
    """``RUEDA_PROGRAM``, the one that the package has brought, or the one in the path."""
    said = os.environ.get("RUEDA_PROGRAM")
    package = Path(rueda.__file__).parent
    for each in [said, package / "bin" / "rueda", Path(sysconfig.get_path("scripts")) / "rueda"]:
        if each and os.access(each, os.X_OK):
            return str(each)
    found = shutil.which("rueda")
    if found is None:
        raise FileNotFoundError("the program rueda is not there: install the package rueda again")
    return found
