"""Horovod's package, served by Rueda: scripts that say ``import horovod.torch as hvd`` run unchanged.

Everything here is Rueda's under the names that Horovod 0.28.1 gave it. What is different is told in
``docs/migrating-from-horovod.md``.
"""

from __future__ import annotations

from horovod._beside import report_real_horovod
from horovod.runner import run

__version__ = "0.28.1"
__all__ = ["run"]

report_real_horovod()
