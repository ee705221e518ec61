"""The operations with one root, on arrays; what each does is told in ``rueda/_rooted.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rooted import RootedOperations
from ._arrays import Arrays

__all__ = ["gather", "gather_async", "reduce", "reduce_async", "scatter", "scatter_async"]

_operations: RootedOperations[Any, np.ndarray] = RootedOperations(Arrays())

gather = _operations.gather
gather_async = _operations.gather_async
reduce = _operations.reduce
reduce_async = _operations.reduce_async
scatter = _operations.scatter
scatter_async = _operations.scatter_async
