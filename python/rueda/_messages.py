"""From one rank to another, on tensors of any framework, without gradients. Ranks are those of the job, not of the set;
nobody but the two calls anything. A send and a receive of the same name belong together; all without a name are alike.
"""

from __future__ import annotations

from typing import Callable, Generic, Optional, Tuple, TypeVar

from . import _native
from ._calls import RECV, SEND, Handle, full_name
from ._process_sets import ProcessSet, global_process_set
from ._reduce_op import Sum
from ._tensors import Given, Tensor, Tensors

_NO_PRIORITY = 0
_ANY_RANK = -1

_Result = TypeVar("_Result")


class MessageOperations(Generic[Given, Tensor]):
    """All of them, on one framework's tensors."""

    def __init__(self, tensors: Tensors[Given, Tensor]) -> None:
        self._tensors = tensors

    def _submit(
        self, operation: int, tensor: Tensor, rank: int, name: Optional[str], process_set: ProcessSet
    ) -> _native.Request:
        return _native.submit(
            operation,
            self._tensors.native(tensor),
            None,
            full_name("message", name),
            Sum,
            1.0,
            1.0,
            process_set._require_id(),
            _NO_PRIORITY,
            rank,
            None,
        )

    def _receive(
        self,
        like: Given,
        into: Optional[Tensor],
        rank: int,
        name: Optional[str],
        process_set: ProcessSet,
        give: Callable[[Tensor, _native.Request], _Result],
    ) -> Handle[_Result]:
        """A tensor of the type and shape of ``like``; ``into`` None: a new one."""
        source = self._tensors.readable(like, name)
        result = self._tensors.empty_like(source) if into is None else source
        request = self._submit(RECV, result, rank, name, process_set)

        def finish() -> _Result:
            if into is None:
                return give(self._tensors.beside(like, result), request)
            return give(into if into is result else self._tensors.fill(into, result), request)

        return Handle([request], finish, name)

    def send_async(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[None]:
        """Starts :func:`send` and returns at once. The tensor must not change until the end."""
        request = self._submit(SEND, self._tensors.readable(tensor, name), rank, name, process_set)
        return Handle([request], lambda: None, name)

    def send(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> None:
        """Sends the tensor to ``rank``, and blocks until it has been received there. What is sent to one rank under
        one name arrives in the order of the calls. Two ranks that send to each other must not both wait for that
        before they receive: one uses :func:`send_async`.

        >>> import numpy as np, rueda.numpy as hvd
        >>> hvd.init()
        >>> handle = hvd.send_async(np.array([1.0, 2.0]), hvd.rank(), "to myself")
        >>> hvd.recv(np.empty(2), hvd.rank(), "to myself")
        array([1., 2.])
        """
        return self.send_async(tensor, rank, name, process_set).wait()

    def recv_async(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[Tensor]:
        """Starts :func:`recv` and returns at once."""
        return self._receive(tensor, None, rank, name, process_set, lambda result, _: result)

    def recv_async_(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[Tensor]:
        """Starts :func:`recv_` and returns at once. The tensor must not be used until the end."""
        into = self._tensors.writable(tensor, name)
        return self._receive(tensor, into, rank, name, process_set, lambda result, _: result)

    def recv(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Tensor:
        """What ``rank`` sends under this name: a new tensor of the type and shape of ``tensor``, which is not changed.
        Blocks until it is there. ``RuedaError``, on both ranks: what is sent has another type or shape."""
        return self.recv_async(tensor, rank, name, process_set).wait()

    def recv_(
        self, tensor: Given, rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Tensor:
        """:func:`recv` into the tensor itself, which is returned."""
        return self.recv_async_(tensor, rank, name, process_set).wait()

    def recv_any_async(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle[Tuple[Tensor, int]]:
        """Starts :func:`recv_any` and returns at once."""
        return self._receive(
            tensor, None, _ANY_RANK, name, process_set, lambda result, request: (result, request.source())
        )

    def recv_any(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Tuple[Tensor, int]:
        """:func:`recv` from whoever sends under this name, each in its turn; the tensor, and the rank that sent it."""
        return self.recv_any_async(tensor, name, process_set).wait()
