"""The operations with one root, on tensors of any framework, without gradients: what comes from all ranks to one, or
from one to all. ``root_rank`` is a rank of the job, not of the set, and the same on all ranks.
"""

from __future__ import annotations

from typing import Generic, List, Optional, Sequence

from . import _native
from ._calls import GATHER, REDUCE, SCATTER, Handle, check_op, full_name, list_splits
from ._process_sets import ProcessSet, global_process_set
from ._reduce_op import Adasum, Average
from ._tensors import Given, Tensor, Tensors

_NO_PRIORITY = 0


class RootedOperations(Generic[Given, Tensor]):
    """All of them, on one framework's tensors."""

    def __init__(self, tensors: Tensors[Given, Tensor]) -> None:
        self._tensors = tensors

    def reduce_async(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Optional[Tensor]]:
        """Starts :func:`reduce` and returns at once. The tensor must not change until the end."""
        if check_op(op) == Adasum:
            raise NotImplementedError("reduce has no Adasum: use allreduce with op=Adasum")
        source = self._tensors.readable(tensor, name)
        result = self._tensors.empty_like(source) if _native.rank() == root_rank else None
        request = _native.submit(
            REDUCE,
            self._tensors.native(source),
            None if result is None else self._tensors.native(result),
            full_name("reduce", name),
            op,
            prescale_factor,
            postscale_factor,
            process_set._require_id(),
            _NO_PRIORITY,
            root_rank,
            None,
        )
        return Handle([request], lambda: None if result is None else self._tensors.beside(tensor, result), name)

    def reduce(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Optional[Tensor]:
        """Combines like :func:`allreduce`, but only ``root_rank`` gets the result, a new tensor; the others get None.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.reduce(np.array([1.0, 2.0]), root_rank=0)
        array([1., 2.])
        """
        return self.reduce_async(tensor, root_rank, name, op, prescale_factor, postscale_factor, process_set).wait()

    def _submit_rows(
        self,
        operation: int,
        word: str,
        source: Tensor,
        root_rank: int,
        name: Optional[str],
        splits: Optional[List[int]],
        process_set: ProcessSet,
    ) -> _native.Request:
        return _native.submit(
            operation,
            self._tensors.native(source),
            None,
            full_name(word, name),
            Average,
            1.0,
            1.0,
            process_set._require_id(),
            _NO_PRIORITY,
            root_rank,
            splits,
        )

    def _output(self, tensor: Given, source: Tensor, request: _native.Request) -> Tensor:
        return self._tensors.beside(tensor, self._tensors.from_output(request, source)[0])

    def gather_async(
        self, tensor: Given, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[Optional[Tensor]]:
        """Starts :func:`gather` and returns at once."""
        source = self._tensors.readable(tensor, name)
        request = self._submit_rows(GATHER, "gather", source, root_rank, name, None, process_set)
        is_root = _native.rank() == root_rank
        return Handle([request], lambda: self._output(tensor, source, request) if is_root else None, name)

    def gather(
        self, tensor: Given, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Optional[Tensor]:
        """The ranks' tensors one after the other along the first dimension, which may differ between them, on
        ``root_rank``; the others get None.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.gather(np.full((1, 3), 7), root_rank=0)
        array([[7, 7, 7]])
        """
        return self.gather_async(tensor, root_rank, name, process_set).wait()

    def scatter_async(
        self,
        tensor: Given,
        root_rank: int,
        splits: Optional[Sequence[int]] = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Starts :func:`scatter` and returns at once."""
        source = self._tensors.readable(tensor, name)
        rows = list_splits("scatter", splits, name, process_set)
        request = self._submit_rows(SCATTER, "scatter", source, root_rank, name, rows, process_set)
        return Handle([request], lambda: self._output(tensor, source, request), name)

    def scatter(
        self,
        tensor: Given,
        root_rank: int,
        splits: Optional[Sequence[int]] = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Gives each rank its rows of the tensor of ``root_rank``: ``splits[i]`` to rank i of the set, or, without
        splits, as even as can be, the first ranks one more. The others give a tensor of the same type and of rows
        of the same shape; how many rows it has does not matter, none will do, and their splits do not count.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> rows = np.arange(6).reshape(3, 2) if hvd.rank() == 0 else np.empty((0, 2), int)
        >>> hvd.scatter(rows, root_rank=0).shape[1]
        2
        """
        return self.scatter_async(tensor, root_rank, splits, name, process_set).wait()
