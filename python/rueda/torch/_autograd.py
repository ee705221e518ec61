"""The operations with gradients, and inside ``torch.compile``.

Backward: allreduce → the same allreduce; allgather → averaged allreduce, then our slice; broadcast →
averaged allreduce on the root, zero elsewhere; reducescatter → allgather (times size for Sum); alltoall →
alltoall with the received splits. A minimum or maximum gives its gradient to the ranks that had it.
Each is made of operations that have gradients themselves, so that there are second derivatives, too.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Type, Union

import torch

from . import _library, _ops
from .._calls import check_op, member_names
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Average, Max, Min, Product, Sum
from ._library import NEED_SOURCE
from .compression import Compression, Compressor

Splits = Optional[Union[torch.Tensor, Sequence[int]]]


def _tracked(*tensors: torch.Tensor) -> bool:
    if not torch.is_grad_enabled():
        return False
    for each in tensors:
        if getattr(each, "requires_grad", False):
            return True
    return False


def _others_product(source: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """What the other ranks have given, multiplied. Not result / source: that may be zero."""
    rows = _Allgather.apply(source.unsqueeze(0), None, process_set, Sum)
    own = process_set.rank()
    return torch.cat([rows[:own], rows[own + 1 :]]).prod(0)


def _held(source: torch.Tensor, op: int, process_set: ProcessSet) -> torch.Tensor:
    """Our share of holding the minimum or maximum: 0 where others hold it, 1 where we alone do."""
    source = source.detach()
    extreme = _ops.submit_allreduce(source, None, None, op, 1.0, 1.0, process_set).wait()
    held = (source == extreme).to(source.dtype)
    return held / _ops.submit_allreduce(held, None, None, Sum, 1.0, 1.0, process_set).wait()


def allreduce_gradient(
    grad: torch.Tensor, source: torch.Tensor, op: int, scale: Tuple[float, float], process_set: ProcessSet
) -> torch.Tensor:
    """``source`` is what this rank had given; only Min, Max and Product look at it."""
    if op not in NEED_SOURCE:
        return allreduce(grad, op=op, prescale_factor=scale[0], postscale_factor=scale[1], process_set=process_set)
    total = allreduce(grad, op=Sum, process_set=process_set)
    if op == Product:
        return total * _others_product(source, process_set) * (scale[0] ** process_set.size() * scale[1])
    if scale[0] < 0:
        op = Min + Max - op
    return total * _held(source, op, process_set) * (scale[0] * scale[1])


class _Allreduce(torch.autograd.Function):
    """``combine`` gives the result; it may have been made together with others."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, combine: Callable[[], torch.Tensor], op: int, scale: Tuple[float, float], process_set: ProcessSet) -> torch.Tensor:
        ctx.arguments = (op, scale, process_set)
        if op in NEED_SOURCE:
            ctx.save_for_backward(tensor)
        return combine()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        # where nothing was saved nothing is asked for: a second backward pass has no need of the first one's graph
        source = ctx.saved_tensors[0] if ctx.arguments[0] in NEED_SOURCE else grad
        return (allreduce_gradient(grad, source, *ctx.arguments),) + (None,) * 4


class _GroupedAllreduce(torch.autograd.Function):
    """Not for Min, Max and Product."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.arguments = (op, prescale, postscale, process_set)
        return tuple(_ops.submit_group(tensors, [None] * len(tensors), name, *ctx.arguments).wait())

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        return (None,) * 5 + tuple(_grouped_allreduce(grads, None, Compression.none, *ctx.arguments))


class _Allgather(torch.autograd.Function):
    """``gradient_op``: how the ranks' gradients of the gathered rows are combined."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet, gradient_op: int) -> torch.Tensor:
        ctx.rows, ctx.shape = tensor.shape[0] if tensor.dim() else 1, tensor.shape
        ctx.process_set, ctx.gradient_op = process_set, gradient_op
        return _ops.allgather_async(tensor, name, process_set).wait()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        total = allreduce(grad, op=ctx.gradient_op, process_set=ctx.process_set)
        rows = _ops.allgather_async(torch.tensor([ctx.rows]), None, ctx.process_set).wait().tolist()
        start = sum(rows[: ctx.process_set.rank()])
        return total[start : start + ctx.rows].reshape(ctx.shape), None, None, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return _ops.broadcast_async(tensor, root_rank, name, process_set).wait()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        total = allreduce(grad, op=Average, process_set=ctx.process_set)
        is_other = ctx.process_set.ranks[ctx.process_set.rank()] != ctx.root_rank
        # not new zeros: a second derivative goes through the allreduce on all ranks, or the root waits for ever
        return total.masked_fill(torch.tensor(is_other, device=total.device), 0), None, None, None


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Splits, name: Optional[str], process_set: ProcessSet) -> Tuple[torch.Tensor, torch.Tensor]:
        output, received = _ops.alltoall_async(tensor, splits, name, process_set).wait()
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, unused: Any) -> Tuple[Optional[torch.Tensor], ...]:
        return alltoall(grad, ctx.received, None, ctx.process_set)[0], None, None, None


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, prescale: float, postscale: float) -> torch.Tensor:
        if op not in (Average, Sum):
            raise ValueError("reducescatter has a gradient for Average and Sum only")
        ctx.scale = prescale * postscale * (process_set.size() if op == Sum else 1)
        ctx.process_set = process_set
        return _ops.reducescatter_async(tensor, name, op, process_set, prescale, postscale).wait()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        return (allgather(grad, None, ctx.process_set) * ctx.scale,) + (None,) * 5


# ---- What users call --------------------------------------------------------------------------------


def allreduce(
    tensor: torch.Tensor,
    *,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines a tensor over all ranks (Average, unless ``op`` says otherwise); a new tensor, with
    gradient. Blocks until all ranks have called it.

    >>> import torch, rueda.torch as hvd
    >>> hvd.init()
    >>> hvd.allreduce(torch.ones(2), op=hvd.Average)
    tensor([1., 1.])
    """
    check_op(op)
    if compression is Compression.none and not torch.compiler.is_compiling() and not _tracked(tensor):
        # by far the most common case
        return _ops.submit_allreduce(
            tensor, None, name, op, prescale_factor, postscale_factor, process_set
        ).wait()
    small, context = compression.compress(tensor)
    arguments = (name, op, prescale_factor, postscale_factor, process_set)
    if torch.compiler.is_compiling():
        result = _library.allreduce(small, *arguments)
    elif _tracked(small):
        combine = lambda: _ops.submit_allreduce(small, None, *arguments).wait()  # noqa: E731
        result = _Allreduce.apply(small, combine, op, (prescale_factor, postscale_factor), process_set)
    else:
        result = _ops.submit_allreduce(small, None, *arguments).wait()
    return compression.decompress(result, context)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    *,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """Combines a list of tensors that run together or not at all; new tensors, with gradient."""
    return _grouped_allreduce(tensors, name, compression, check_op(op), prescale_factor, postscale_factor, process_set)


def _grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    name: Optional[str],
    compression: Type[Compressor],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    if not tensors:
        return []
    pairs = [compression.compress(tensor) for tensor in tensors]
    small = [pair[0] for pair in pairs]
    arguments = (op, prescale, postscale, process_set)
    if torch.compiler.is_compiling():
        results = _library.grouped_allreduce(small, name, *arguments)
    elif _tracked(*small) and op not in NEED_SOURCE:
        results = list(_GroupedAllreduce.apply(name, *arguments, *small))
    else:
        results = _ops.submit_group(small, [None] * len(small), name, *arguments).wait()
        if _tracked(*small):  # each alone, so that a backward pass through one leaves what the others saved
            results = [
                _Allreduce.apply(each, lambda: result, op, arguments[1:3], process_set)
                for each, result in zip(small, results)
            ]
    return [compression.decompress(result, pair[1]) for result, pair in zip(results, pairs)]


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The ranks' tensors one after the other along the first dimension, which may differ; with gradient."""
    if torch.compiler.is_compiling():
        return _library.allgather(tensor, name, process_set)
    if _tracked(tensor):
        return _Allgather.apply(tensor, name, process_set, Average)
    return _ops.allgather_async(tensor, name, process_set).wait()


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """The allgather of each tensor of a list; with gradient."""
    if not torch.compiler.is_compiling() and not _tracked(*tensors):
        return _ops.grouped_allgather_async(tensors, name, process_set).wait()
    names = member_names(name, len(tensors))
    return [allgather(tensor, each, process_set) for tensor, each in zip(tensors, names)]


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """The tensor of ``root_rank`` (a rank of the job, not of the set); with gradient."""
    if torch.compiler.is_compiling():
        return _library.broadcast(tensor, root_rank, name, process_set)
    if _tracked(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return _ops.broadcast_async(tensor, root_rank, name, process_set).wait()


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Sends ``splits[i]`` rows to rank i of the set and gives the rows received, by rank; with splits
    given, also how many came from each. With gradient."""
    if torch.compiler.is_compiling():
        output, received = _library.alltoall(tensor, splits, name, process_set)
    elif _tracked(tensor):
        output, received = _Alltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = _ops.alltoall_async(tensor, splits, name, process_set).wait()
    return output if splits is None else (output, received)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Combines a tensor and gives each rank its share of the rows; with gradient."""
    small, context = compression.compress(tensor)
    if torch.compiler.is_compiling():
        result = _library.reducescatter(small, name, op, prescale_factor, postscale_factor, process_set)
    elif _tracked(small):
        result = _Reducescatter.apply(small, name, op, process_set, prescale_factor, postscale_factor)
    else:
        result = _ops.reducescatter_async(
            small, name, op, process_set, prescale_factor, postscale_factor
        ).wait()
    return compression.decompress(result, context)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """The reducescatter of each tensor of a list; with gradient."""
    if torch.compiler.is_compiling() or _tracked(*tensors):
        names = member_names(name, len(tensors))
        arguments = (compression, op, process_set, prescale_factor, postscale_factor)
        return [reducescatter(each, own, *arguments) for each, own in zip(tensors, names)]
    pairs = [compression.compress(tensor) for tensor in tensors]
    small = [pair[0] for pair in pairs]
    results = _ops.grouped_reducescatter_async(
        small, name, op, process_set, prescale_factor, postscale_factor
    ).wait()
    return [compression.decompress(result, pair[1]) for result, pair in zip(results, pairs)]
