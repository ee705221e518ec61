"""The operations on tensors of any framework, without gradients. A front end says what its tensors are (``Tensors``)
and takes its functions from ``Operations``: those that end in ``_async`` submit and return a handle, the others wait
for it; those whose names end with an underscore change their argument, the others give new tensors.

Examples are NumPy's; other frameworks' tensors go the same way.
"""

from __future__ import annotations

import functools
from typing import Callable, Generic, List, Optional, Sequence, Tuple, Union

from . import _native
from ._calls import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BROADCAST,
    REDUCESCATTER,
    Handle,
    check_op,
    full_name,
    group_name,
    list_splits,
    member_names,
    refuse_adasum,
)
from ._process_sets import ProcessSet, global_process_set
from ._reduce_op import Average
from ._tensors import Given, Tensor, Tensors

_NO_ROOT = 0
_NO_PRIORITY = 0

#: allreduce with all of its arguments: tensor, into (None: a new one), name, op, prescale, postscale, process set.
Submit = Callable[[Given, Optional[Tensor], Optional[str], int, float, float, ProcessSet], Handle[Tensor]]


class Operations(Generic[Given, Tensor]):
    """All of them, on one framework's tensors."""

    def __init__(self, tensors: Tensors[Given, Tensor]) -> None:
        self._tensors = tensors
        self._readable, self._writable, self._native = tensors.readable, tensors.writable, tensors.native
        self.submit_allreduce: Submit[Given, Tensor] = functools.partial(self._submit, ALLREDUCE, "allreduce")

    # ---- Submitting ---------------------------------------------------------------------------------

    def _finisher(self, given: Given, into: Optional[Tensor], result: Tensor) -> Callable[[], Tensor]:
        """What a handle gives: the result, or the user's tensor with it."""
        if into is result:
            return lambda: result
        if into is None:
            return lambda: self._tensors.beside(given, result)
        target = into
        return lambda: self._tensors.fill(target, result)

    def _submit(
        self,
        operation: int,
        word: str,
        tensor: Given,
        into: Optional[Tensor],
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        root: int = _NO_ROOT,
    ) -> Handle[Tensor]:
        """An operation whose output is as large as its input; ``into`` None: a new tensor."""
        source = self._readable(tensor, name)
        result = self._tensors.empty_like(source) if into is None else source
        request = _native.submit(
            operation,
            self._native(source),
            None if result is source else self._native(result),
            full_name(word, name),
            op,
            prescale,
            postscale,
            process_set._require_id(),
            _NO_PRIORITY,
            root,
            None,
        )
        return Handle([request], self._finisher(tensor, into, result), name)

    def submit_group(
        self,
        tensors: Sequence[Given],
        intos: Sequence[Optional[Tensor]],
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
    ) -> Handle[List[Tensor]]:
        """All of them together, or none; ``intos`` as ``into`` of each."""
        if len(tensors) == 0:
            return Handle([], list)
        names = member_names(group_name(name, process_set), len(tensors))
        sources = [self._readable(tensor, each) for tensor, each in zip(tensors, names)]
        apart = len({id(tensor) for tensor in tensors}) == len(tensors)  # what is given twice is still to be read
        results = [
            source if apart and into is not None else self._tensors.empty_like(source)
            for source, into in zip(sources, intos)
        ]
        request = _native.submit_group(
            [self._native(source) for source in sources],
            [None if result is source else self._native(result) for result, source in zip(results, sources)],
            [full_name("allreduce", each) for each in names],
            op,
            prescale,
            postscale,
            process_set._require_id(),
            _NO_PRIORITY,
        )
        finishers = [self._finisher(*each) for each in zip(tensors, intos, results)]
        return Handle([request], lambda: [finish() for finish in finishers], name)

    def _submit_sized(
        self,
        operation: int,
        word: str,
        tensor: Given,
        name: Optional[str],
        process_set: ProcessSet,
        op: int = Average,
        prescale: float = 1.0,
        postscale: float = 1.0,
        splits: Optional[List[int]] = None,
    ) -> Handle[Tuple[Tensor, Tuple[int, ...]]]:
        """An operation whose output has a size of its own; gives (tensor, received splits)."""
        source = self._readable(tensor, name)
        request = _native.submit(
            operation,
            self._native(source),
            None,
            full_name(word, name),
            op,
            prescale,
            postscale,
            process_set._require_id(),
            _NO_PRIORITY,
            _NO_ROOT,
            splits,
        )

        def finish() -> Tuple[Tensor, Tuple[int, ...]]:
            output, received = self._tensors.from_output(request, source)
            return self._tensors.beside(tensor, output), received

        return Handle([request], finish, name)

    # ---- allreduce ----------------------------------------------------------------------------------

    def allreduce_async(
        self,
        tensor: Given,
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Starts :func:`allreduce` and returns at once. The tensor must not change until the end.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> handle = hvd.allreduce_async(np.ones(2), name="weights")
        >>> hvd.synchronize(handle)
        array([1., 1.])
        """
        return self.submit_allreduce(
            tensor, None, name, check_op(op), prescale_factor, postscale_factor, process_set
        )

    def allreduce_async_(
        self,
        tensor: Given,
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Starts :func:`allreduce_` and returns at once. The tensor must not be used until the end."""
        into = self._writable(tensor, name)
        return self.submit_allreduce(
            tensor, into, name, check_op(op), prescale_factor, postscale_factor, process_set
        )

    def allreduce(
        self,
        tensor: Given,
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """Combines the ranks' tensors element by element; every rank gets the result, a new tensor. Blocks until
        all ranks of the set have called it.

        ``op``: ``Average`` (if nothing is said), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``. ``name``: the
        same on all ranks; without one, calls are matched by their order. Each input is multiplied by
        ``prescale_factor`` first, the result by ``postscale_factor``.
        ``ValueError``: bad arguments; ``RuedaError``: the ranks disagree, or a rank was lost.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.allreduce(np.array([1.0, 2.0]))
        array([1., 2.])
        >>> hvd.allreduce([hvd.rank()], op=hvd.Max) == hvd.size() - 1
        array([ True])
        """
        return self.submit_allreduce(
            tensor, None, name, check_op(op), prescale_factor, postscale_factor, process_set
        ).wait()

    def allreduce_(
        self,
        tensor: Given,
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """:func:`allreduce` in place; returns the tensor itself.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> gradient = np.full((2, 2), 4.0)
        >>> hvd.allreduce_(gradient, prescale_factor=0.5) is gradient
        True
        >>> gradient
        array([[2., 2.],
               [2., 2.]])
        """
        into = self._writable(tensor, name)
        return self.submit_allreduce(
            tensor, into, name, check_op(op), prescale_factor, postscale_factor, process_set
        ).wait()

    def grouped_allreduce_async(
        self,
        tensors: Sequence[Given],
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[List[Tensor]]:
        """Starts :func:`grouped_allreduce` and returns at once."""
        tensors = list(tensors)
        news: List[Optional[Tensor]] = [None] * len(tensors)
        return self.submit_group(tensors, news, name, check_op(op), prescale_factor, postscale_factor, process_set)

    def grouped_allreduce_async_(
        self,
        tensors: Sequence[Given],
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[List[Tensor]]:
        """Starts :func:`grouped_allreduce_` and returns at once."""
        tensors = list(tensors)
        intos = [self._writable(tensor, name) for tensor in tensors]
        return self.submit_group(tensors, intos, name, check_op(op), prescale_factor, postscale_factor, process_set)

    def grouped_allreduce(
        self,
        tensors: Sequence[Given],
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> List[Tensor]:
        """:func:`allreduce` of several tensors that run together or not at all; a list of new tensors.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.grouped_allreduce([np.ones(1), np.zeros(2)], name="layers")
        [array([1.]), array([0., 0.])]
        """
        tensors = list(tensors)
        news: List[Optional[Tensor]] = [None] * len(tensors)
        return self.submit_group(
            tensors, news, name, check_op(op), prescale_factor, postscale_factor, process_set
        ).wait()

    def grouped_allreduce_(
        self,
        tensors: Sequence[Given],
        *,
        name: Optional[str] = None,
        op: int = Average,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> List[Tensor]:
        """:func:`grouped_allreduce` in place; returns the tensors themselves."""
        tensors = list(tensors)
        intos = [self._writable(tensor, name) for tensor in tensors]
        return self.submit_group(
            tensors, intos, name, check_op(op), prescale_factor, postscale_factor, process_set
        ).wait()

    # ---- The other operations -----------------------------------------------------------------------

    def allgather_async(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[Tensor]:
        """Starts :func:`allgather` and returns at once."""
        return _first(self._submit_sized(ALLGATHER, "allgather", tensor, name, process_set))

    def allgather(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Tensor:
        """The ranks' tensors one after the other along the first dimension, which may differ between them.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.allgather(np.full((1, 3), hvd.rank())).shape == (hvd.size(), 3)
        True
        """
        return self.allgather_async(tensor, name, process_set).wait()

    def grouped_allgather_async(
        self, tensors: Sequence[Given], name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[List[Tensor]]:
        """Starts :func:`grouped_allgather` and returns at once."""
        names = member_names(name, len(tensors))
        return _together([self.allgather_async(t, n, process_set) for t, n in zip(tensors, names)], name)

    def grouped_allgather(
        self, tensors: Sequence[Given], name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> List[Tensor]:
        """:func:`allgather` of each tensor of a list.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> [len(rows) == hvd.size() for rows in hvd.grouped_allgather([np.ones(1), np.zeros((1, 2))])]
        [True, True]
        """
        return self.grouped_allgather_async(tensors, name, process_set).wait()

    def broadcast_async(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Starts :func:`broadcast` and returns at once."""
        return self._submit(BROADCAST, "broadcast", tensor, None, name, Average, 1.0, 1.0, process_set, root_rank)

    def broadcast_async_(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tensor]:
        """Starts :func:`broadcast_` and returns at once."""
        into = self._writable(tensor, name)
        return self._submit(BROADCAST, "broadcast", tensor, into, name, Average, 1.0, 1.0, process_set, root_rank)

    def broadcast(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """The tensor of ``root_rank`` (a rank of the job, not of the set), on every rank. Others give a tensor of
        the same shape and type.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.broadcast(np.full(2, 10 + hvd.rank()), root_rank=0)
        array([10, 10])
        """
        return self.broadcast_async(tensor, root_rank, name, process_set).wait()

    def broadcast_(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Tensor:
        """:func:`broadcast` in place; returns the tensor itself."""
        return self.broadcast_async_(tensor, root_rank, name, process_set).wait()

    def alltoall_async(
        self,
        tensor: Given,
        splits: Optional[Union[Tensor, Sequence[int]]] = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle[Tuple[Tensor, Tensor]]:
        """Starts :func:`alltoall` and returns at once; gives the rows and the received splits, always."""
        rows = list_splits("alltoall", splits, name, process_set)
        handle = self._submit_sized(ALLTOALL, "alltoall", tensor, name, process_set, splits=rows)
        return handle._then(lambda result: (result[0], self._tensors.counts(result[1])))

    def alltoall(
        self,
        tensor: Given,
        splits: Optional[Union[Tensor, Sequence[int]]] = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """Sends ``splits[i]`` rows to rank i of the set and gives the rows received, by rank. With ``splits``
        the result is a pair: the rows, and how many came from each rank; without, rows are dealt evenly.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.alltoall(np.full(hvd.size(), hvd.rank())).tolist() == list(range(hvd.size()))
        True
        """
        rows, received = self.alltoall_async(tensor, splits, name, process_set).wait()
        return rows if splits is None else (rows, received)

    def reducescatter_async(
        self,
        tensor: Given,
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle[Tensor]:
        """Starts :func:`reducescatter` and returns at once."""
        scales = (prescale_factor, postscale_factor)
        return _first(
            self._submit_sized(REDUCESCATTER, "reducescatter", tensor, name, process_set, refuse_adasum(op), *scales)
        )

    def reducescatter(
        self,
        tensor: Given,
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Tensor:
        """Combines like :func:`allreduce` and gives each rank its share of the rows; the first ranks get one
        more where they cannot be dealt evenly.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> hvd.reducescatter(np.ones((hvd.size(), 2)), op=hvd.Sum) / hvd.size()
        array([[1., 1.]])
        """
        return self.reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor).wait()

    def grouped_reducescatter_async(
        self,
        tensors: Sequence[Given],
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle[List[Tensor]]:
        """Starts :func:`grouped_reducescatter` and returns at once."""
        common = (op, process_set, prescale_factor, postscale_factor)
        names = member_names(name, len(tensors))
        return _together([self.reducescatter_async(t, n, *common) for t, n in zip(tensors, names)], name)

    def grouped_reducescatter(
        self,
        tensors: Sequence[Given],
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> List[Tensor]:
        """:func:`reducescatter` of each tensor of a list."""
        return self.grouped_reducescatter_async(
            tensors, name, op, process_set, prescale_factor, postscale_factor
        ).wait()


def _first(handle: Handle[Tuple[Tensor, Tuple[int, ...]]]) -> Handle[Tensor]:
    """The same operation, but its result is the tensor alone."""
    return handle._then(lambda result: result[0])


def _together(handles: List[Handle[Tensor]], name: Optional[str]) -> Handle[List[Tensor]]:
    requests = [request for handle in handles for request in handle._requests]
    return Handle(requests, lambda: [handle.wait() for handle in handles], name)
