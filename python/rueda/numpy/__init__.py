"""Rueda for NumPy: the operations on arrays, in one line each.

    import numpy as np
    import rueda.numpy as hvd

    hvd.init()
    mean = hvd.allreduce(np.arange(3.0) * hvd.rank())     # start it with: rueda run -np 4 python this.py
"""

from __future__ import annotations

from typing import List

from .. import _basics, _process_sets, _reduce_op
from .._basics import *  # noqa: F401,F403
from .._basics import orthogonality
from .._calls import Handle, barrier, barrier_async, join, join_async, poll, synchronize
from .._objects import allgather_object, broadcast_object, broadcast_object_fn
from .._process_sets import *  # noqa: F401,F403
from .._reduce_op import *  # noqa: F401,F403
from . import _messages, _ops, _rooted
from ._messages import *  # noqa: F401,F403
from ._ops import *  # noqa: F401,F403
from ._rooted import *  # noqa: F401,F403

__all__ = [
    "Handle",
    "allgather_object",
    "barrier",
    "barrier_async",
    "broadcast_object",
    "broadcast_object_fn",
    "join",
    "join_async",
    "orthogonality",
    "poll",
    "synchronize",
]
__all__ += _basics.__all__
__all__ += _messages.__all__
__all__ += _ops.__all__
__all__ += _process_sets.__all__
__all__ += _reduce_op.__all__
__all__ += _rooted.__all__


def __dir__() -> List[str]:
    return sorted(__all__)
