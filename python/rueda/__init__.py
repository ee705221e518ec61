"""Rueda: train one model on many workers.

``rueda.torch`` and ``rueda.numpy`` hold the operations on their tensors and are imported when first used;
here is what they have in common. Start a script on four workers with ``rueda run -np 4 python train.py``.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import exceptions
from ._basics import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    adasum,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    orthogonality,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stats,
    stop_timeline,
)
from ._native import version as _version
from ._process_sets import (
    ProcessSet,
    add_process_set,
    get_process_set_by_id,
    global_process_set,
    process_set_ids,
    remove_process_set,
)

__version__ = _version()
_LAZY = {"torch", "numpy", "tensorflow", "keras", "jax"}
_BASICS = [name for name in dir() if not name.startswith("_") and name not in {"annotations", "importlib", "Any"}]
__all__ = [*_BASICS, "run"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "run":
        return importlib.import_module(f"{__name__}._run").run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
