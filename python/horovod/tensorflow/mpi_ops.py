"""The operations on tensors; there is no MPI in them but the name. Arguments are Horovod's, of which Rueda needs not
all: an operation runs where its tensor is, so devices say nothing, and names on the wire have no scopes."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import rueda.tensorflow as _served
from rueda.tensorflow import (  # noqa: F401
    Compression,
    barrier,
    broadcast_,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from rueda.tensorflow._ops import as_it_is

from horovod.common import basics as _basics  # noqa: F401
from horovod.common._average import resolve_op
from horovod.common.basics import *  # noqa: F401,F403
from horovod.common.basics import Average
from horovod.common.process_sets import (  # noqa: F401
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)


@as_it_is
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """``rueda.tensorflow.allreduce``; ``average=False`` is ``op=Sum``."""
    return _served.allreduce(
        tensor,
        compression=compression,
        op=resolve_op(average, op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
        process_set=process_set,
    )


@as_it_is
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[Any]:
    """``rueda.tensorflow.grouped_allreduce``; ``average=False`` is ``op=Sum``."""
    return _served.grouped_allreduce(
        tensors,
        compression=compression,
        op=resolve_op(average, op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
        process_set=process_set,
    )


@as_it_is
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """``rueda.tensorflow.allgather``."""
    return _served.allgather(tensor, name, process_set=process_set)


@as_it_is
def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """``rueda.tensorflow.grouped_allgather``."""
    return _served.grouped_allgather(tensors, name, process_set=process_set)


@as_it_is
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """``rueda.tensorflow.broadcast``."""
    return _served.broadcast(tensor, root_rank, name, process_set=process_set)


@as_it_is
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """``rueda.tensorflow.alltoall``."""
    return _served.alltoall(tensor, splits, name, process_set=process_set)


@as_it_is
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
) -> Any:
    """``rueda.tensorflow.reducescatter``."""
    return _served.reducescatter(
        tensor,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
        process_set=process_set,
    )


@as_it_is
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[Any]:
    """``rueda.tensorflow.grouped_reducescatter``."""
    return _served.grouped_reducescatter(
        tensors,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
        process_set=process_set,
    )
