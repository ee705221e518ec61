"""NumPy arrays as the engine reads them, and its output as arrays. Nothing is copied that need not be."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from .. import _native
from .._tensors import Tensors

#: By the name of the type, so that bfloat16 works wherever ml_dtypes (or another package) defines it.
_NUMBERS: Dict[str, int] = {
    "bool": 0,
    "uint8": 1,
    "int8": 2,
    "uint16": 3,
    "int16": 4,
    "int32": 5,
    "int64": 6,
    "float16": 7,
    "bfloat16": 8,
    "float32": 9,
    "float64": 10,
}
_INSTEAD = {
    "uint32": "; use int64",
    "uint64": "; use int64 or float64",
    "complex64": "; use array.view(numpy.float32)",
    "complex128": "; use array.view(numpy.float64)",
    "object": "; for Python objects there are broadcast_object and allgather_object",
}


class _Loan:
    """Memory of the engine. NumPy takes it by DLPack, but read-only; it is ours to write, so it is handed
    to NumPy once more by its address."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule
        self._owner = np.from_dlpack(self)
        self.__array_interface__ = dict(self._owner.__array_interface__)
        self.__array_interface__["data"] = (self._owner.__array_interface__["data"][0], False)

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)


class Arrays(Tensors[Any, np.ndarray]):
    """Everything that numpy.asarray takes is an array here; results are arrays."""

    def readable(self, tensor: Any, name: Optional[str]) -> np.ndarray:
        """In one piece, in this machine's byte order."""
        array = np.asarray(tensor)
        if array.dtype.name not in _NUMBERS:
            raise ValueError(
                f"tensor {name or '(no name)'}: {array.dtype.name} cannot be combined"
                + _INSTEAD.get(array.dtype.name, "")
            )
        return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")

    def writable(self, tensor: Any, name: Optional[str]) -> np.ndarray:
        if not isinstance(tensor, np.ndarray) or not tensor.flags.writeable:
            raise ValueError(f"tensor {name or '(no name)'}: only a writable numpy.ndarray can be changed in place")
        return tensor

    def empty_like(self, source: np.ndarray) -> np.ndarray:
        return np.empty_like(source)

    def native(self, source: np.ndarray) -> Tuple[int, int, Tuple[int, ...], np.ndarray]:
        """The extension keeps it alive."""
        return (source.__array_interface__["data"][0], _NUMBERS[source.dtype.name], source.shape, source)

    def beside(self, given: Any, result: np.ndarray) -> np.ndarray:
        return result

    def fill(self, target: np.ndarray, result: np.ndarray) -> np.ndarray:
        target[...] = result
        return target

    def from_output(self, request: _native.Request, source: np.ndarray) -> Tuple[np.ndarray, Tuple[int, ...]]:
        capsule, shape, splits = request.output()
        if 0 in shape:
            return np.empty(shape, source.dtype), splits
        return np.asarray(_Loan(capsule)).view(source.dtype).reshape(shape), splits

    def counts(self, numbers: Sequence[int]) -> np.ndarray:
        return np.array(numbers, np.int32)
