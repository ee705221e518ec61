"""Sparse tensors: the ranks' indices and values are gathered, so the sum is again sparse."""

from __future__ import annotations

from typing import Optional

import torch

from . import _ops
from .._calls import Handle
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Adasum, Average, Sum


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Starts to add up (or average) a sparse tensor over all ranks. The handle can be called for the
    result, a coalesced sparse tensor, or given to ``synchronize``."""
    if op == Adasum:
        raise ValueError(f"tensor {name or '(no name)'}: Adasum of a sparse tensor; make it dense first")
    if op not in (Average, Sum):
        raise ValueError(f"tensor {name or '(no name)'}: sparse tensors have Average and Sum only")
    if not tensor.is_sparse:
        raise ValueError(f"tensor {name or '(no name)'} is not sparse; use allreduce_async")
    tensor = tensor.detach().coalesce()
    part = (lambda word: None) if name is None else (lambda word: f"{name}.{word}")
    indices = _ops.allgather_async(tensor.indices().t().contiguous(), part("indices"), process_set)
    values = _ops.allgather_async(tensor.values(), part("values"), process_set)
    ranks = process_set.size()

    def finish() -> torch.Tensor:
        gathered = values.wait()
        if op == Average:
            gathered = gathered / ranks
        return torch.sparse_coo_tensor(
            indices.wait().t(), gathered, tensor.shape, is_coalesced=False, check_invariants=False
        ).coalesce()

    return Handle([*indices._requests, *values._requests], finish, name)
