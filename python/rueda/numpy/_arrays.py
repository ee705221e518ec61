"""NumPy arrays as the engine reads them, and its output as arrays. Nothing is copied that need not be."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

from .. import _native

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


def contiguous(array: Any, name: Optional[str]) -> np.ndarray:
    """The array itself, or a copy that the engine can read: in one piece, in this machine's byte order.
    ``ValueError``: its type cannot be combined."""
    array = np.asarray(array)
    if array.dtype.name not in _NUMBERS:
        raise ValueError(
            f"tensor {name or '(no name)'}: {array.dtype.name} cannot be combined"
            + _INSTEAD.get(array.dtype.name, "")
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def target(array: Any, name: Optional[str]) -> np.ndarray:
    """Checks what is to be changed in place."""
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        raise ValueError(f"tensor {name or '(no name)'}: only a writable numpy.ndarray can be changed in place")
    return array


def native(array: np.ndarray) -> Tuple[int, int, Tuple[int, ...], np.ndarray]:
    """A contiguous array for ``_native.submit``, which keeps it alive."""
    return (array.__array_interface__["data"][0], _NUMBERS[array.dtype.name], array.shape, array)


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


def from_output(request: _native.Request, dtype: np.dtype) -> Tuple[np.ndarray, Tuple[int, ...]]:
    """The output that the library has allocated, and alltoall's received splits."""
    capsule, shape, splits = request.output()
    if 0 in shape:
        return np.empty(shape, dtype), splits
    return np.asarray(_Loan(capsule)).view(dtype).reshape(shape), splits
