"""From one rank to another, on arrays; what each does is told in ``rueda/_messages.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._messages import MessageOperations
from ._arrays import Arrays

__all__ = [
    "recv",
    "recv_",
    "recv_any",
    "recv_any_async",
    "recv_async",
    "recv_async_",
    "send",
    "send_async",
]

_operations: MessageOperations[Any, np.ndarray] = MessageOperations(Arrays())

recv = _operations.recv
recv_ = _operations.recv_
recv_any = _operations.recv_any
recv_any_async = _operations.recv_any_async
recv_async = _operations.recv_async
recv_async_ = _operations.recv_async_
send = _operations.send
send_async = _operations.send_async
