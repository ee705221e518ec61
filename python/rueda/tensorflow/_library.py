"""TensorFlow's operations of rueda: ``librueda_tf.so``, registered through TensorFlow's C interface."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Sequence

import tensorflow as tf

_PATH = os.path.join(os.path.dirname(__file__), "librueda_tf.so")


def _load() -> Any:
    library = tf.load_op_library(_PATH)
    if not hasattr(library, "rueda_start"):
        raise ImportError(
            f"rueda's operations could not be registered with TensorFlow {tf.__version__}: "
            "2.12 or newer is needed"
        )
    return library


operations = _load()


def set_due(key: int, due: bool) -> None:
    """Whether ``rueda_due`` is true for this key, from now on; it is not before."""
    _library.rueda_tf_set_due(ctypes.c_int64(key), int(due))


def await_eagerly(handles: Sequence[Any]) -> None:
    """Blocks until these eager operations have ended, in slices: between them the interpreter sees Ctrl-C. Kernels
    cannot be interrupted, and one that fails while a signal is pending ends in an error of TensorFlow's own."""
    for handle in handles:
        number = ctypes.c_int64(int(handle.numpy()))
        while not _library.rueda_tf_wait(number, _SLICE_MS):
            pass


_SLICE_MS = ctypes.c_int64(50)
_library = ctypes.CDLL(_PATH)  # the same that TensorFlow has loaded
