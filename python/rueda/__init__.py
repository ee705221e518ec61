"""Rueda: train one model on many workers.

``rueda.torch`` and ``rueda.numpy`` hold the operations on their tensors and are imported when first used;
here is what they have in common. Start a script on four workers with ``rueda run -np 4 python train.py``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import exceptions
from ._basics import *  # noqa: F401,F403
from ._basics import __all__ as _basics
from ._native import version as _version
from ._process_sets import *  # noqa: F401,F403
from ._process_sets import __all__ as _process_sets

if TYPE_CHECKING:
    from ._run import run

__version__ = _version()
__all__ = ["exceptions", "run", *_basics, *_process_sets]
_LAZY = {"torch", "numpy", "tensorflow", "keras", "jax"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "run":
        return importlib.import_module(f"{__name__}._run").run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
