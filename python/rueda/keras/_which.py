"""Which Keras: the one that ``tf.keras`` is here. Version 2 is ``tf_keras`` where ``TF_USE_LEGACY_KERAS`` asks
for it, and ``keras`` itself with TensorFlow before 2.16."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

_ASKS_FOR_2 = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")


def _refuse(backend: str) -> None:
    if backend != "tensorflow":
        raise ImportError(
            f"rueda.keras works with Keras on TensorFlow; here KERAS_BACKEND is {backend!r}. "
            "Set KERAS_BACKEND=tensorflow, or use rueda.torch with a training loop of your own."
        )


if not _ASKS_FOR_2:
    _refuse(os.environ.get("KERAS_BACKEND") or "tensorflow")  # before Keras imports what may not be there

keras: Any = import_module("tf_keras" if _ASKS_FOR_2 else "keras")
IS_2 = keras.__version__.startswith("2.")

if not IS_2:
    _refuse(keras.backend.backend())  # it may have read it from a file
