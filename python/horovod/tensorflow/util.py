"""How TensorFlow runs here, as scripts for Horovod ask for it."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow as tf

from horovod.common.util import _cache

__all__ = ["_cache", "_executing_eagerly", "_make_subgraph"]


def _executing_eagerly() -> bool:
    """Whether operations run at once; False where a graph is made."""
    return bool(tf.executing_eagerly())


def _make_subgraph(function: Callable[..., Any]) -> Any:
    return tf.function(function)
