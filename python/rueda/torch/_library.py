"""The operations as ``torch.ops.rueda.*``, so that they can stand inside compiled graphs.

A compiled graph holds plain values only: a process set goes in as its number.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from .._process_sets import ProcessSet, get_process_set_by_id
from .._reduce_op import Max, Min, Product

NEED_SOURCE = (Min, Max, Product)  # their gradient depends on what was given


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


@torch.library.custom_op("rueda::allreduce_gradient", mutates_args=())
def _allreduce_gradient(
    grad: torch.Tensor, source: torch.Tensor, op: int, prescale: float, postscale: float, process_set: int
) -> torch.Tensor:
    members = get_process_set_by_id(process_set)
    return _operations().allreduce_gradient(grad, source, op, (prescale, postscale), members)


@_allreduce_gradient.register_fake
def _(grad: torch.Tensor, source: torch.Tensor, op: int, prescale: float, postscale: float, process_set: int) -> torch.Tensor:
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def _keep_allreduce(ctx: Any, inputs: Tuple[Any, ...], output: torch.Tensor) -> None:
    tensor, _, *ctx.arguments = inputs
    ctx.save_for_backward(*([tensor] if ctx.arguments[0] in NEED_SOURCE else []))


def _backward_of_allreduce(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    (source,) = ctx.saved_tensors or (grad,)
    return (_allreduce_gradient(grad.contiguous(), source.clone(), *ctx.arguments),) + (None,) * 5


_allreduce.register_autograd(_backward_of_allreduce, setup_context=_keep_allreduce)


@torch.library.custom_op("rueda::grouped_allreduce", mutates_args=())
def _grouped_allreduce(
    tensors: Sequence[torch.Tensor], name: Optional[str], op: int, prescale: float, postscale: float, process_set: int
) -> List[torch.Tensor]:
    members = get_process_set_by_id(process_set)
    return _operations()._ops.submit_group(
        tensors, [None] * len(tensors), name, op, prescale, postscale, members
    ).wait()


@_grouped_allreduce.register_fake
def _(tensors: Sequence[torch.Tensor], name: Optional[str], op: int, prescale: float, postscale: float, process_set: int) -> List[torch.Tensor]:
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]


def _keep_grouped(ctx: Any, inputs: Tuple[Any, ...], output: Any) -> None:
    tensors, _, *ctx.arguments = inputs
    ctx.save_for_backward(*(tensors if ctx.arguments[0] in NEED_SOURCE else []))


def _backward_of_grouped(ctx: Any, grads: Sequence[torch.Tensor]) -> Tuple[Any, ...]:
    sources = ctx.saved_tensors or grads
    results = [
        _allreduce_gradient(grad.contiguous(), source.clone(), *ctx.arguments)
        for grad, source in zip(grads, sources)
    ]
    return (results,) + (None,) * 5


_grouped_allreduce.register_autograd(_backward_of_grouped, setup_context=_keep_grouped)


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


@torch.library.custom_op("rueda::broadcast_gradient", mutates_args=())
def _broadcast_gradient(grad: torch.Tensor, root_rank: int, process_set: int) -> torch.Tensor:
    """One operation, or the part whose result only the root uses would be left out on the others."""
    members = get_process_set_by_id(process_set)
    total = _operations()._ops.submit_allreduce(grad, None, None, 0, 1.0, 1.0, members).wait()
    return total if members.ranks[members.rank()] == root_rank else torch.zeros_like(total)


@_broadcast_gradient.register_fake
def _(grad: torch.Tensor, root_rank: int, process_set: int) -> torch.Tensor:
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def _backward_of_broadcast(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
    return _broadcast_gradient(grad.contiguous(), ctx.root_rank, ctx.process_set), None, None, None


_broadcast.register_autograd(_backward_of_broadcast, setup_context=_keep_broadcast)


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
def _alltoall(
    tensor: torch.Tensor, splits: Optional[torch.Tensor], name: Optional[str], process_set: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    members = get_process_set_by_id(process_set)
    return _operations()._ops.alltoall_async(tensor, splits, name, members).wait()


@_alltoall.register_fake
def _(
    tensor: torch.Tensor, splits: Optional[torch.Tensor], name: Optional[str], process_set: int
) -> Tuple[torch.Tensor, torch.Tensor]:
    rows = tensor.shape[0] if splits is None else torch.library.get_ctx().new_dynamic_size()
    received = torch.empty(get_process_set_by_id(process_set).size(), dtype=torch.int32)
    return tensor.new_empty((rows, *tensor.shape[1:])), received


@torch.library.custom_op("rueda::alltoall_gradient", mutates_args=())
def _alltoall_gradient(grad: torch.Tensor, received: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    """The same way back; ``rows`` are those that were sent."""
    members = get_process_set_by_id(process_set)
    return _operations()._ops.alltoall_async(grad, received, None, members).wait()[0]


@_alltoall_gradient.register_fake
def _(grad: torch.Tensor, received: torch.Tensor, rows: int, process_set: int) -> torch.Tensor:
    return grad.new_empty((rows, *grad.shape[1:]))


def _keep_alltoall(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[torch.Tensor, torch.Tensor]) -> None:
    ctx.rows, ctx.process_set = inputs[0].shape[0], inputs[3]
    ctx.save_for_backward(output[1])


def _backward_of_alltoall(ctx: Any, grad: torch.Tensor, unused: Any) -> Tuple[Optional[torch.Tensor], ...]:
    (received,) = ctx.saved_tensors
    return _alltoall_gradient(grad.contiguous(), received, ctx.rows, ctx.process_set), None, None, None


_alltoall.register_autograd(_backward_of_alltoall, setup_context=_keep_alltoall)


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


def alltoall(
    tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet
) -> Tuple[torch.Tensor, torch.Tensor]:
    if splits is not None and not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits)
    return torch.ops.rueda.alltoall(tensor, splits, name, process_set.process_set_id)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor], name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> List[torch.Tensor]:
    number = process_set.process_set_id
    return torch.ops.rueda.grouped_allreduce(list(tensors), name, op, prescale, postscale, number)
