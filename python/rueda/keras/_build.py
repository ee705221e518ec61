"""Models and optimizers that have no variables yet."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ._which import IS_2, keras


def is_built(model: Any) -> bool:
    """Whether all its layers have their variables."""
    return bool(model.built) and all(layer.built for layer in model._flatten_layers())


def build_optimizer(model: Any) -> None:
    """Makes what the optimizer remembers, if it can be made before the first step. The older optimizers of Keras
    2 make it then."""
    optimizer: Any = getattr(model, "optimizer", None)
    if hasattr(optimizer, "build") and not getattr(optimizer, "built", False) and is_built(model):
        optimizer.build(model.trainable_variables)


def build_for(model: Any, iterator: Any) -> bool:
    """Makes the variables for batches of the shapes that an iterator of ``tf.data`` gives; takes none of them.
    False: it cannot be done without data."""
    try:
        batch = tf.nest.map_structure(_placeholder, iterator.element_spec)
        if IS_2:
            model(keras.utils.unpack_x_y_sample_weight(batch)[0])
        else:
            model._symbolic_build(data_batch=batch)
    except Exception:  # whatever the user's own layers raise without data; with data they tell it again
        return False
    return is_built(model)


def _placeholder(spec: Any) -> Any:
    """A tensor without values; None for what may be missing in a batch."""
    if not isinstance(spec, tf.TensorSpec):
        return None
    if IS_2:
        return keras.Input(spec.shape[1:], spec.shape[0], dtype=spec.dtype)
    return keras.KerasTensor(spec.shape.as_list(), spec.dtype.name)
