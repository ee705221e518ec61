"""The operations on tensors, without gradients: submitted at once, waited for by ``synchronize``.

Whatever the engine cannot read where it lies (strided tensors, tensors on a GPU) goes through a contiguous
copy on the host, and the result goes back to where the input was.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from .. import _native
from .._basics import Average
from .._calls import (  # noqa: F401
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    REDUCESCATTER,
    Handle,
    check_op,
    full_name,
    group_name,
    member_names,
    poll,
    resolve_op,
    synchronize,
)
from .._process_sets import ProcessSet, global_process_set

_NO_ROOT = 0
_DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    getattr(torch, "uint16", None),
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
_COMBINABLE = frozenset(_DTYPES)
_HAS_EXCHANGE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


# ---- Tensors in and out -----------------------------------------------------------------------------


def check_tensor(tensor: Any, name: Optional[str]) -> None:
    """Refuses what cannot be combined, by name."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"tensor {name or '(no name)'}: {type(tensor).__name__} is not a torch.Tensor")
    if tensor.layout is not torch.strided:
        raise ValueError(
            f"tensor {name or '(no name)'} is sparse: use sparse_allreduce_async, or make it dense"
        )
    if tensor.dtype not in _COMBINABLE:
        raise ValueError(
            f"tensor {name or '(no name)'}: {tensor.dtype} cannot be combined"
            + ("; use torch.view_as_real" if tensor.is_complex() else "")
        )


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, where the engine can read it, or a copy that it can."""
    if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    return tensor.detach().cpu().contiguous().resolve_neg()


def native(tensor: torch.Tensor) -> Any:
    """A contiguous host tensor as the extension reads it."""
    if _HAS_EXCHANGE:
        return tensor
    return (tensor.data_ptr(), _DTYPES.index(tensor.dtype), tuple(tensor.shape), tensor)


def from_output(request: _native.Request, dtype: torch.dtype) -> Tuple[torch.Tensor, Tuple[int, ...]]:
    """The output that the library has allocated, and alltoall's received splits."""
    capsule, shape, splits = request.output()
    if 0 in shape:
        return torch.empty(shape, dtype=dtype), splits
    return torch.from_dlpack(capsule).view(dtype).reshape(shape), splits


def _give_back(target: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """The result where the user wants it."""
    if target is not result:
        with torch.no_grad():
            target.copy_(result)
    return target


# ---- allreduce --------------------------------------------------------------------------------------


def submit_allreduce(
    tensor: torch.Tensor,
    output: Optional[torch.Tensor],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """``output`` None: a new tensor."""
    check_tensor(tensor, name)
    source = on_host(tensor)
    in_place = source is output and source.numel() > 0
    result = source if in_place else torch.empty_like(source)
    request = _native.submit(
        ALLREDUCE,
        native(source),
        None if in_place else native(result),
        full_name("allreduce", name),
        op,
        prescale,
        postscale,
        process_set._require_id(),
        0,
        _NO_ROOT,
        None,
    )
    return Handle([request], _finisher(tensor, output, result))


def _finisher(
    tensor: torch.Tensor, output: Optional[torch.Tensor], result: torch.Tensor
) -> Callable[[], torch.Tensor]:
    if output is not None:
        return lambda: _give_back(output, result)
    return lambda: result if tensor.device.type == "cpu" else result.to(tensor.device)


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts to combine a tensor over all ranks; ``synchronize`` gives a new tensor. The input must not
    be changed before."""
    op = resolve_op(average, op)
    return submit_allreduce(tensor, None, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place: ``synchronize`` gives the tensor itself."""
    op = resolve_op(average, op)
    return submit_allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines a tensor over all ranks in place, and waits for it."""
    return allreduce_async_(
        tensor, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()


def submit_grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    outputs: Optional[Sequence[torch.Tensor]],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """All of them together, or none."""
    tensors = list(tensors)
    if not tensors:
        return Handle([], list)
    names = member_names(group_name(name, process_set), len(tensors))
    for tensor, each in zip(tensors, names):
        check_tensor(tensor, each)
    sources = [on_host(tensor) for tensor in tensors]
    results = [torch.empty_like(source) for source in sources]
    request = _native.submit_group(
        [native(source) for source in sources],
        [native(result) for result in results],
        [full_name("allreduce", each) for each in names],
        op,
        prescale,
        postscale,
        process_set._require_id(),
        0,
    )

    def finish() -> List[torch.Tensor]:
        return [
            _finisher(tensor, None if outputs is None else outputs[i], results[i])()
            for i, tensor in enumerate(tensors)
        ]

    return Handle([request], finish)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts to combine a list of tensors that run together or not at all."""
    op = resolve_op(average, op)
    return submit_grouped_allreduce(
        tensors, None, name, op, prescale_factor, postscale_factor, process_set
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place."""
    op = resolve_op(average, op)
    return submit_grouped_allreduce(
        tensors, tensors, name, op, prescale_factor, postscale_factor, process_set
    )


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """Combines a list of tensors in place, and waits for them."""
    return grouped_allreduce_async_(
        tensors, average, name, op, prescale_factor, postscale_factor, process_set
    ).wait()


# ---- The other operations ---------------------------------------------------------------------------


def _submit_sized(
    operation: int,
    word: str,
    tensor: torch.Tensor,
    name: Optional[str],
    process_set: ProcessSet,
    op: int = Average,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: Optional[List[int]] = None,
) -> Handle:
    """An operation whose output has a size of its own; its result is (tensor, received splits)."""
    check_tensor(tensor, name)
    request = _native.submit(
        operation,
        native(on_host(tensor)),
        None,
        full_name(word, name),
        op,
        prescale,
        postscale,
        process_set._require_id(),
        0,
        _NO_ROOT,
        splits,
    )

    def finish() -> Tuple[torch.Tensor, Tuple[int, ...]]:
        output, received = from_output(request, tensor.dtype)
        return output.to(tensor.device), received

    return Handle([request], finish)


def _first(handle: Handle) -> Handle:
    """The same handle, but its result is the tensor alone."""
    finish = handle._finish
    assert finish is not None
    handle._finish = lambda: finish()[0]
    return handle


def _together(handles: List[Handle]) -> Handle:
    requests = [request for handle in handles for request in handle._requests]
    return Handle(requests, lambda: [handle.wait() for handle in handles])


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Starts to concatenate the ranks' tensors along the first dimension, which may differ."""
    return _first(_submit_sized(ALLGATHER, "allgather", tensor, name, process_set))


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts the allgather of each tensor of a list."""
    names = member_names(name, len(tensors))
    return _together([allgather_async(t, n, process_set) for t, n in zip(tensors, names)])


def _submit_broadcast(
    tensor: torch.Tensor,
    output: Optional[torch.Tensor],
    root_rank: int,
    name: Optional[str],
    process_set: ProcessSet,
) -> Handle:
    check_tensor(tensor, name)
    source = on_host(tensor)
    in_place = source is output and source.numel() > 0
    result = source if in_place else torch.empty_like(source)
    request = _native.submit(
        BROADCAST,
        native(source),
        None if in_place else native(result),
        full_name("broadcast", name),
        Average,
        1.0,
        1.0,
        process_set._require_id(),
        0,
        root_rank,
        None,
    )
    return Handle([request], _finisher(tensor, output, result))


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts to copy the tensor of ``root_rank`` (a rank of the job, not of the set) to all."""
    return _submit_broadcast(tensor, None, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """The same in place."""
    return _submit_broadcast(tensor, tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Copies the tensor of ``root_rank`` into everyone's, and waits for it."""
    return broadcast_async_(tensor, root_rank, name, process_set).wait()


def _list_splits(splits: Optional[Union[torch.Tensor, Sequence[int]]]) -> Optional[List[int]]:
    if splits is None:
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dim() != 1 or splits.is_floating_point():
            raise ValueError("alltoall: splits must be a list of whole numbers, one for each rank")
        return [int(rows) for rows in splits.tolist()]
    return [int(rows) for rows in splits]


def alltoall_async(
    tensor: torch.Tensor,
    splits: Optional[Union[torch.Tensor, Sequence[int]]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts to send ``splits[i]`` rows to rank i of the set (None: the same number to each).
    ``synchronize`` gives the rows received and how many came from each rank."""
    rows = _list_splits(splits)
    if rows is not None and len(rows) != process_set.size():
        raise ValueError(
            f"alltoall of {name or '(no name)'}: {len(rows)} splits for {process_set.size()} ranks"
        )
    handle = _submit_sized(ALLTOALL, "alltoall", tensor, name, process_set, splits=rows)
    finish = handle._finish
    assert finish is not None

    def with_splits() -> Tuple[torch.Tensor, torch.Tensor]:
        output, received = finish()
        return output, torch.tensor(received, dtype=torch.int32)

    handle._finish = with_splits
    return handle


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts to combine a tensor and to give each rank its share of the rows; the first ``rows % size``
    ranks get one row more."""
    return _first(
        _submit_sized(
            REDUCESCATTER,
            "reducescatter",
            tensor,
            name,
            process_set,
            check_op(op),
            prescale_factor,
            postscale_factor,
        )
    )


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Starts the reducescatter of each tensor of a list."""
    names = member_names(name, len(tensors))
    return _together(
        [
            reducescatter_async(t, n, op, process_set, prescale_factor, postscale_factor)
            for t, n in zip(tensors, names)
        ]
    )


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until all ranks of the set are here."""
    _native.barrier(process_set._require_id()).wait()


def join(device: int = -1) -> int:
    """"I have no more data": waits until all ranks have joined, while this rank gives zeros to their
    allreduces. The rank that joined last. ``device`` is there for Horovod's sake."""
    _native.join().wait()
    return _native.last_joined()
