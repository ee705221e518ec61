"""The operations as ``torch.ops.rueda.*``, so that they can stand inside compiled graphs.

A compiled graph holds plain values only: a process set goes in as its number.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from .._process_sets import ProcessSet, get_process_set_by_id


def _operations() -> Any:
    from . import _autograd  # it imports us

    return _autograd


@torch.library.custom_op("rueda::allreduce", mutates_args=())
def _allreduce(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: int
) -> torch.Tensor:
    return _operations()._ops.submit_allreduce(
        tensor, None, name, op, prescale, postscale, get_process_set_by_id(process_set)
    ).wait()


@_allreduce.register_fake
def _(tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: int) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _keep_allreduce(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    tensor, _, op, prescale, postscale, process_set = inputs
    ctx.arguments = (op, prescale, postscale, process_set)
    if op > 2:
        raise ValueError("a compiled allreduce has a gradient for Average, Sum and Adasum only")


def _allreduce_gradient(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    op, prescale, postscale, process_set = ctx.arguments
    return (_allreduce(grad.contiguous(), None, op, prescale, postscale, process_set),) + (None,) * 5


_allreduce.register_autograd(_allreduce_gradient, setup_context=_keep_allreduce)


@torch.library.custom_op("rueda::broadcast", mutates_args=())
def _broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: int) -> torch.Tensor:
    return _operations()._ops.broadcast_async(
        tensor, root_rank, name, get_process_set_by_id(process_set)
    ).wait()


@_broadcast.register_fake
def _(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: int) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _keep_broadcast(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.root_rank, ctx.process_set = inputs[1], inputs[3]


def _broadcast_gradient(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    members = get_process_set_by_id(ctx.process_set)
    total = _allreduce(grad.contiguous(), None, 0, 1.0, 1.0, ctx.process_set)
    is_root = members.ranks[members.rank()] == ctx.root_rank
    return total if is_root else torch.zeros_like(total), None, None, None


_broadcast.register_autograd(_broadcast_gradient, setup_context=_keep_broadcast)


@torch.library.custom_op("rueda::allgather", mutates_args=())
def _allgather(tensor: torch.Tensor, name: Optional[str], process_set: int) -> torch.Tensor:
    return _operations()._ops.allgather_async(tensor, name, get_process_set_by_id(process_set)).wait()


@_allgather.register_fake
def _(tensor: torch.Tensor, name: Optional[str], process_set: int) -> torch.Tensor:
    rows = torch.library.get_ctx().new_dynamic_size()
    return tensor.new_empty((rows, *tensor.shape[1:]))


def _keep_allgather(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.rows, ctx.process_set = inputs[0].shape[0], inputs[2]


@torch.library.custom_op("rueda::gathered_slice", mutates_args=())
def _gathered_slice(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    """Our rows of an averaged gradient of allgather."""
    members, ops = get_process_set_by_id(process_set), _operations()._ops
    total = ops.submit_allreduce(grad, None, None, 0, 1.0, 1.0, members).wait()
    counts = ops.allgather_async(torch.tensor([rows]), None, members).wait().tolist()
    start = sum(counts[: members.rank()])
    return total[start : start + rows].clone()


@_gathered_slice.register_fake
def _(grad: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    return grad.new_empty((rows, *grad.shape[1:]))


def _allgather_gradient(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    return _gathered_slice(grad.contiguous(), ctx.rows, ctx.process_set), None, None


_allgather.register_autograd(_allgather_gradient, setup_context=_keep_allgather)


@torch.library.custom_op("rueda::reducescatter", mutates_args=())
def _reducescatter(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: int
) -> torch.Tensor:
    return _operations()._ops.reducescatter_async(
        tensor, name, op, get_process_set_by_id(process_set), prescale, postscale
    ).wait()


@_reducescatter.register_fake
def _(tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: int) -> torch.Tensor:
    members = get_process_set_by_id(process_set)
    rows, more = divmod(tensor.shape[0], members.size())
    return tensor.new_empty((rows + (members.rank() < more), *tensor.shape[1:]))


def _keep_reducescatter(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    _, _, op, prescale, postscale, ctx.process_set = inputs
    ctx.scale = prescale * postscale * (get_process_set_by_id(ctx.process_set).size() if op == 1 else 1)


def _reducescatter_gradient(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    return (_allgather(grad.contiguous(), None, ctx.process_set) * ctx.scale,) + (None,) * 5


_reducescatter.register_autograd(_reducescatter_gradient, setup_context=_keep_reducescatter)


@torch.library.custom_op("rueda::alltoall", mutates_args=())
def _alltoall(tensor: torch.Tensor, name: Optional[str], process_set: int) -> torch.Tensor:
    return _operations()._ops.alltoall_async(
        tensor, None, name, get_process_set_by_id(process_set)
    ).wait()[0]


@_alltoall.register_fake
def _(tensor: torch.Tensor, name: Optional[str], process_set: int) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _keep_alltoall(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.process_set = inputs[2]


def _alltoall_gradient(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    return _alltoall(grad.contiguous(), None, ctx.process_set), None, None


_alltoall.register_autograd(_alltoall_gradient, setup_context=_keep_alltoall)


# ---- With process sets as objects -------------------------------------------------------------------


def allreduce(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> torch.Tensor:
    return torch.ops.rueda.allreduce(tensor, name, op, prescale, postscale, process_set.process_set_id)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    return torch.ops.rueda.broadcast(tensor, root_rank, name, process_set.process_set_id)


def allgather(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    return torch.ops.rueda.allgather(tensor, name, process_set.process_set_id)


def reducescatter(
    tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> torch.Tensor:
    return torch.ops.rueda.reducescatter(tensor, name, op, prescale, postscale, process_set.process_set_id)


def alltoall(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
    return torch.ops.rueda.alltoall(tensor, name, process_set.process_set_id)
