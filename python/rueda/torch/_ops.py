"""The operations on tensors, without gradients; what each does is told in ``rueda/_operations.py``. Those with
gradients are in ``_autograd.py``."""

from __future__ import annotations

import torch

from .._operations import Operations
from ._tensors import TorchTensors

_operations: Operations[torch.Tensor, torch.Tensor] = Operations(TorchTensors())

allgather_async = _operations.allgather_async
allreduce_ = _operations.allreduce_
allreduce_async = _operations.allreduce_async
allreduce_async_ = _operations.allreduce_async_
alltoall_async = _operations.alltoall_async
broadcast_ = _operations.broadcast_
broadcast_async = _operations.broadcast_async
broadcast_async_ = _operations.broadcast_async_
grouped_allgather_async = _operations.grouped_allgather_async
grouped_allreduce_ = _operations.grouped_allreduce_
grouped_allreduce_async = _operations.grouped_allreduce_async
grouped_allreduce_async_ = _operations.grouped_allreduce_async_
grouped_reducescatter_async = _operations.grouped_reducescatter_async
reducescatter_async = _operations.reducescatter_async
submit_allreduce = _operations.submit_allreduce
submit_group = _operations.submit_group
