"""Rueda: train one model on many workers.

``rueda.torch`` and ``rueda.numpy`` hold the operations on their tensors and are imported when first used;
here is what they have in common. Start a script on four workers with ``rueda run -np 4 python train.py``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

from . import _basics, _process_sets, _reduce_op, exceptions
from ._basics import *  # noqa: F401,F403
from ._basics import orthogonality
from ._native import version as _version
from ._process_sets import *  # noqa: F401,F403
from ._reduce_op import *  # noqa: F401,F403

if TYPE_CHECKING:
    from . import config, keras, numpy, tensorflow, torch
    from ._run import run

__version__ = _version()
__all__ = ["exceptions", "orthogonality", "run"]
__all__ += _basics.__all__
__all__ += _process_sets.__all__
__all__ += _reduce_op.__all__
_MODULES = ["config", "keras", "numpy", "tensorflow", "torch"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "run":
        return importlib.import_module(f"{__name__}._run").run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*__all__, *_MODULES, "__doc__", "__file__", "__name__", "__path__", "__version__"])
