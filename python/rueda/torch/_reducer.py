"""Gradients on their way: which parameter lies where, and when its bucket leaves.

The first backward pass only learns: in which order gradients arrive, and which are sparse. The ranks agree
on that (the order is the first member's), buckets are laid out in shared memory, and from then on a bucket
leaves as soon as its last gradient has arrived, while the backward pass goes on. ``native/hook.c`` does
that; this file does what is not the common case.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Type

import torch

from . import _ops
from ._alike import warn_if_different
from ._sparse import sparse_allreduce_async
from ._tensors import native, on_host
from .. import _native
from .._calls import Handle
from .._process_sets import ProcessSet
from .._reduce_op import Average, Max, Sum
from .compression import Compressor, NoneCompressor

BUCKET_BYTES = 8 << 20  # a bucket leaves when about so much has arrived
FIRST_BUCKET_BYTES = 1 << 20  # the first one earlier, so that communication starts early
ALIGNMENT = 64  # bytes between the starts of two gradients

# optimizers of a process set come to their first step, also after a join, in the same order on all of its ranks
_numbers: Dict[Tuple[int, int], Iterator[int]] = {}


def _next_number(process_set: ProcessSet) -> int:
    members = (_native.generation(), process_set._require_id())
    return next(_numbers.setdefault(members, itertools.count()))


class Reduction(NamedTuple):
    """How gradients are combined."""

    op: int
    prescale: float
    postscale: float
    compression: Type[Compressor]
    sparse_as_dense: bool
    process_set: ProcessSet
    gives_back_sparse: bool = False  # what was made dense: the optimizer takes no dense gradients


class _Bucket(NamedTuple):
    """Some parameters that travel together. ``flat`` None: each is compressed by the user's class."""

    members: List[int]
    flat: Optional[torch.Tensor]
    flags: Optional[torch.Tensor]
    is_gradient: bool  # the views into `flat` are the gradients themselves


def shared_tensor(numel: int, dtype: torch.dtype) -> torch.Tensor:
    """A zeroed tensor that the other ranks of this host can reach; ordinary memory where there is none."""
    bytes_wanted = numel * dtype.itemsize
    if bytes_wanted == 0:
        return torch.zeros(numel, dtype=dtype)
    return torch.from_dlpack(_native.allocate(bytes_wanted)).view(dtype)


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _inside_another_backward() -> bool:
    """Whether this backward pass was started from within one (a checkpoint that computes again)."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "apply" and "self" in frame.f_locals:
            if isinstance(frame.f_locals["self"], torch.autograd.function.BackwardCFunction):
                return True
        frame = frame.f_back
    return False


class GradientReducer:
    """Combines the gradients of the parameters of one optimizer; see the head of the file."""

    def __init__(
        self,
        names: List[str],
        parameters: List[torch.Tensor],
        reduction: Reduction,
        groups: Sequence[Sequence[int]],
        passes: int,
    ) -> None:
        self.names, self.parameters, self.reduction = names, parameters, reduction
        self.groups, self.passes = groups, passes
        self.known = set(map(id, parameters))
        self.completed = False  # a round has ended since the last step
        self._number = -1
        self._handles: List[Any] = []
        self._buckets: List[_Bucket] = []
        self._views: List[Optional[torch.Tensor]] = []
        self._sparse: Dict[int, Handle[torch.Tensor]] = {}
        self._compressed: Dict[int, Tuple[torch.Tensor, Any]] = {}
        self._absent: Set[int] = set()  # of the compressed ones, those this rank has no gradient for
        self._group_requests: Dict[int, Tuple[_native.Request, List[torch.Tensor]]] = {}
        self._is_sparse: List[bool] = []  # on the wire
        self._made_dense: List[int] = []
        self._order: List[int] = []
        self._planned = False
        self._listen([(None, -1, 0, passes)] * len(parameters), [])

    # ---- Hooks

    def _listen(self, gradients: List[Any], buckets: List[Any]) -> None:
        """Makes the native reducer, and its hooks the parameters' hooks."""
        for handle in self._handles:
            handle.remove()
        self._native = _native.Reducer(
            _native,
            gradients,
            buckets,
            self._begin,
            self._take_slowly,
            self._submit_compressed,
            getattr(torch._C, "_current_graph_task_id", None),
            self.reduction.op == Average or self.reduction.postscale != 1.0,
        )
        self._generation = _native.generation()
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._native.hook(i))
            for i, parameter in enumerate(self.parameters)
        ]

    def close(self) -> None:
        """Takes the hooks away; gradients are again the parameters' own. Nothing else may be called then."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        del self._native  # it calls us: parameters would live on until the next garbage collection

    def _begin(self) -> None:
        """The first gradient of a backward pass: asks to be called at its end."""
        queue = getattr(torch.autograd.Variable._execution_engine, "queue_callback", None)
        if queue is not None:  # private; without it step() finishes
            queue(self._end_of_backward)

    def _end_of_backward(self) -> None:
        if not self._native.open or (self._native.missing() and _inside_another_backward()):
            return
        self.finish()

    @property
    def enabled(self) -> bool:
        """Whether backward passes communicate."""
        return self._native.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._native.enabled = value

    @property
    def open(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._native.open

    @property
    def stale(self) -> bool:
        """Whether ranks have to agree anew since buckets were made: the job is another, or all have joined."""
        return self._generation != _native.generation()

    def restart(self) -> None:
        """A step has been done, or gradients were cleared: passes count from the start."""
        self.completed = False
        self._native.reset(self.passes)

    # ---- One gradient

    def _take_slowly(self, index: int, parameter: torch.Tensor) -> None:
        """What native/hook.c does not do itself."""
        if self.stale:
            self._start_over()
            self._native.hook(index)(parameter)
            return
        if not self._planned:
            self._order.append(index)
            return
        gradient = parameter.grad
        assert gradient is not None
        if self._is_sparse[index]:
            self._start_sparse(index, gradient)
            return
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        bucket = self._bucket_of[index]
        if bucket.flat is None:
            self._compressed[index] = self.reduction.compression.compress(gradient.detach())
            parameter.grad = gradient
            return
        view = self._views[index]
        assert view is not None
        view.copy_(gradient.detach())
        parameter.grad = view if bucket.is_gradient else gradient

    def _start_sparse(self, index: int, gradient: torch.Tensor) -> None:
        if not gradient.is_sparse:
            gradient = gradient.to_sparse(self._sparse_dimensions(index))
        reduction = self.reduction
        scaled = gradient if reduction.prescale == 1.0 else gradient * reduction.prescale
        self._sparse[index] = sparse_allreduce_async(
            scaled, f"optimizer{self._number}.{self.names[index]}", reduction.op, reduction.process_set
        )

    def _sparse_dimensions(self, index: int) -> int:
        return 1 if self.parameters[index].dim() > 1 else self.parameters[index].dim()

    def _submit_compressed(self, number: int) -> None:
        """All gradients of a bucket have gone through the user's compressor."""
        members = self._buckets[number].members
        present = torch.tensor([float(i not in self._absent) for i in members])
        tensors = [on_host(self._compressed[i][0]) for i in members] + [present]
        names = [self.names[i] for i in members] + [f"bucket{number}.present"]
        request = _native.submit_group(
            [native(tensor) for tensor in tensors],
            [None] * len(tensors),
            [f"allreduce.optimizer{self._number}.{name}" for name in names],
            self.reduction.op,
            self.reduction.prescale,
            self.reduction.postscale,
            self.reduction.process_set._require_id(),
            number,
        )
        self._group_requests[number] = (request, tensors)

    # ---- The end of a round

    def finish(self) -> None:
        """Blocks until the gradients of all parameters have been combined. Parameters without a gradient
        count as zero; one that no rank has a gradient for is left alone."""
        if self.stale:
            self._start_over()
        if not self._planned:
            self._plan()
        missing = self._native.missing()
        for index in missing:
            self._fill_in(index)
        nobody = set(self._native.finish())
        for index in missing:
            self._show_foreign(index, index in nobody)
        self._unpack(nobody)
        self.completed = True

    def _start_over(self) -> None:
        """Agreed on anew; of another job not even the memory of buckets is left."""
        for parameter, view in zip(self.parameters, self._views):
            if view is not None and parameter.grad is view:
                parameter.grad = view.clone()
        self._planned, self._views, self._buckets, self._order = False, [], [], []
        self._listen([(None, -1, 0, self.passes)] * len(self.parameters), [])

    def _fill_in(self, index: int) -> None:
        """A parameter whose hook did not run in this round."""
        parameter = self.parameters[index]
        gradient, view = parameter.grad, self._views[index]
        if self._is_sparse[index]:
            empty = torch.sparse_coo_tensor(  # type: ignore[call-arg]
                size=parameter.shape, dtype=parameter.dtype
            )
            self._start_sparse(index, empty if gradient is None else gradient)
        elif gradient is None:
            self._fill_with_zeros(index, parameter, view)
        elif gradient is view:
            if self.reduction.op == Sum and not self._native.is_fresh(index):
                view.div_(self.linear_factor())  # it was combined before: leave it as it is
        else:
            self._take_slowly(index, parameter)
        self._native.arrive(index, gradient is not None)

    def linear_factor(self) -> float:
        """What combining equal gradients multiplies them with."""
        reduction = self.reduction
        return reduction.process_set.size() * reduction.prescale * reduction.postscale

    def _fill_with_zeros(self, index: int, parameter: torch.Tensor, view: Optional[torch.Tensor]) -> None:
        if view is not None:
            view.zero_()
        else:
            self._absent.add(index)
            self._compressed[index] = self.reduction.compression.compress(torch.zeros_like(parameter).detach())

    def _show_foreign(self, index: int, nobody: bool) -> None:
        """Others had a gradient for what this rank had none."""
        parameter, view = self.parameters[index], self._views[index]
        if parameter.grad is not None or nobody or self._is_sparse[index]:
            return
        if view is not None and self._bucket_of[index].is_gradient:
            parameter.grad = view

    def _unpack(self, nobody: Any) -> None:
        """Results that are not yet the gradients."""
        for index, handle in self._sparse.items():
            result = handle.wait()
            self.parameters[index].grad = (
                result if self.reduction.postscale == 1.0 else result * self.reduction.postscale
            )
        self._sparse.clear()
        for number, (request, tensors) in self._group_requests.items():
            request.wait()
            for index, tensor, present in zip(self._buckets[number].members, tensors, tensors[-1]):
                if present != 0:
                    result = self.reduction.compression.decompress(tensor, self._compressed[index][1])
                    self._write(index, result)
        self._group_requests.clear()
        self._compressed.clear()
        self._absent.clear()
        for bucket in self._buckets:
            if bucket.flat is not None and not bucket.is_gradient:
                for index in bucket.members:
                    if index not in nobody:
                        self._write(index, self._views[index])
        if self.reduction.gives_back_sparse:
            self._give_back_sparse()

    def _give_back_sparse(self) -> None:
        for index in self._made_dense:
            parameter = self.parameters[index]
            if parameter.grad is not None and not parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_sparse(self._sparse_dimensions(index))

    def _write(self, index: int, result: Any) -> None:
        parameter = self.parameters[index]
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        parameter.grad.copy_(result.view(parameter.shape))

    # ---- The plan

    def _plan(self) -> None:
        """Once, after the first backward pass: the ranks agree on order and kinds, and buckets are made."""
        self._number = _next_number(self.reduction.process_set)
        self._agree()
        self._views = [None] * len(self.parameters)
        self._bucket_of: Dict[int, _Bucket] = {}
        self._buckets = [self._make_bucket(members) for members in self._divide()]
        gradients: List[Any] = [(None, -1, 0, 0)] * len(self.parameters)
        rows = []
        for number, bucket in enumerate(self._buckets):
            for position, index in enumerate(bucket.members):
                flag = 0 if bucket.flags is None else bucket.flags[position].data_ptr()
                # gradients of complex numbers may be lazily conjugated, which the native code cannot see
                is_plain = bucket.is_gradient and not self.parameters[index].is_complex()
                gradients[index] = (self._views[index] if is_plain else None, number, flag, 0)
                self._bucket_of[index] = bucket
            rows.append(self._describe_bucket(number, bucket))
        enabled = self._native.enabled
        self._listen(gradients, rows)
        self._native.enabled = enabled
        self._planned = True

    def _describe_bucket(self, number: int, bucket: _Bucket) -> Tuple[Any, ...]:
        name = f"allreduce.optimizer{self._number}.bucket{number}.{self.names[bucket.members[0]]}"
        reduction = self.reduction
        flat = None if bucket.flat is None else native(bucket.flat)
        scales = (reduction.prescale, reduction.postscale)
        # what arrives last belongs to the first layers, which the next step needs first
        return (flat, name[:255], reduction.op, *scales, reduction.process_set._require_id(), number)

    def _agree(self) -> None:
        """The order of the first member's gradients, whether anyone's is sparse, and that all begin alike.
        By allreduce alone: some members may have joined, and the first may be one of them."""
        count, members, name = len(self.parameters), self.reduction.process_set, f"optimizer{self._number}"
        unseen = [i for i in reversed(range(count)) if i not in set(self._order)]
        # the maximum is the first member's, in every place
        first = (members.size() - members.rank()) * count
        order = torch.tensor([first + index for index in self._order + unseen], dtype=torch.int64)
        sparse = torch.tensor(
            [p.grad is not None and p.grad.is_sparse for p in self.parameters], dtype=torch.uint8
        )
        handles = [
            _ops.allreduce_async_(order, name=f"{name}.order", op=Max, process_set=members),
            _ops.allreduce_async_(sparse, name=f"{name}.sparse", op=Max, process_set=members),
        ]
        for handle in handles:
            handle.wait()
        warn_if_different(self.names, self.parameters, name, members)
        self._order = (order % max(count, 1)).tolist()
        were_sparse = [i for i, each in enumerate(sparse.tolist()) if each]
        self._made_dense = were_sparse if self.reduction.sparse_as_dense else []
        self._is_sparse = [i in were_sparse and not self.reduction.sparse_as_dense for i in range(count)]

    def _wire_dtype(self, parameter: torch.Tensor) -> Optional[torch.dtype]:
        """The type on the wire; None: the user's compressor decides."""
        compression = self.reduction.compression
        own = _real(parameter.dtype)
        if compression is NoneCompressor or not parameter.is_floating_point():
            return own
        return getattr(compression, "wire_dtype", None)

    def _divide(self) -> List[List[int]]:
        """Parameters by bucket: the user's groups, the others by order and size; never two kinds together."""
        group_of = {index: number for number, group in enumerate(self.groups) for index in group}
        buckets: List[List[int]] = []
        current: Dict[Any, Tuple[List[int], int]] = {}
        for index in self._order:
            if self._is_sparse[index]:
                continue
            parameter = self.parameters[index]
            wire = self._wire_dtype(parameter)
            kind = (wire, parameter.dtype, parameter.device, group_of.get(index))
            members, used = current.get(kind, ([], 0))
            if not members:
                buckets.append(members)
            members.append(index)
            used += parameter.numel() * parameter.element_size()
            limit = FIRST_BUCKET_BYTES if len(buckets) == 1 else BUCKET_BYTES
            is_full = used >= limit and index not in group_of
            current[kind] = ([], 0) if is_full else (members, used)
        return buckets

    def _make_bucket(self, members: List[int]) -> _Bucket:
        first = self.parameters[members[0]]
        wire = self._wire_dtype(first)
        if wire is None:
            return _Bucket(members, None, None, False)
        is_gradient = wire == _real(first.dtype) and first.device.type == "cpu"
        offsets, total = self._lay_out(members, wire)
        flat = shared_tensor(total + len(members), wire)
        for index, offset in zip(members, offsets):
            self._views[index] = self._view(flat, offset, self.parameters[index], is_gradient)
        return _Bucket(members, flat, flat[total:], is_gradient)

    def _lay_out(self, members: List[int], wire: torch.dtype) -> Tuple[List[int], int]:
        unit = ALIGNMENT // wire.itemsize
        offsets, total = [], 0
        for index in members:
            parameter = self.parameters[index]
            offsets.append(total)
            numel = parameter.numel() * (2 if parameter.is_complex() else 1)
            total += (numel + unit - 1) // unit * unit
        return offsets, total

    def _view(
        self, flat: torch.Tensor, offset: int, parameter: torch.Tensor, is_gradient: bool
    ) -> torch.Tensor:
        """A parameter's place in a bucket, laid out in memory as the parameter is."""
        if parameter.is_complex():
            place = torch.view_as_complex(flat[offset : offset + 2 * parameter.numel()].view(-1, 2))
            return place.view(parameter.shape)
        place = flat[offset : offset + parameter.numel()]
        if is_gradient and not parameter.is_contiguous():
            # empty_like keeps strides that cover memory without holes, such as channels_last
            return flat.as_strided(parameter.shape, torch.empty_like(parameter).stride(), offset)
        return place.view(parameter.shape)
