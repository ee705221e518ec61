"""TensorFlow's operations of rueda: ``librueda_tf.so``, registered through TensorFlow's C interface."""

from __future__ import annotations

import os
from typing import Any

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
