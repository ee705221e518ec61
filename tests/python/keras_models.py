"""What tests of Keras share: a model, data in parts, and the same training in one process."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

import keras
import numpy as np

import rueda.keras as hvd
from rueda import _native

BATCH = 8


def make_model(**options: Any) -> Any:
    """Of equal start values on all ranks."""
    keras.utils.set_random_seed(1)
    layers = [
        keras.Input([10]),
        keras.layers.Dense(20, activation="relu", **options),
        keras.layers.Dense(2, dtype="float32"),
    ]
    return keras.Sequential(layers)


def make_data(batches: int = 8) -> Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All of it, and this rank's part of each joined batch."""
    rng, size = np.random.default_rng(0), hvd.size()
    x = rng.normal(size=(batches * BATCH * size, 10)).astype("float32")
    y = rng.normal(size=(batches * BATCH * size, 2)).astype("float32")
    return x, y, own_part(x), own_part(y)


def own_part(array: np.ndarray, batch: int = BATCH) -> np.ndarray:
    """This rank's part of each joined batch."""
    return array.reshape(-1, hvd.size(), batch, *array.shape[1:])[:, hvd.rank()].reshape(-1, *array.shape[1:])


def fit(
    model: Any,
    optimizer: Any,
    x: np.ndarray,
    y: np.ndarray,
    batch: int,
    callbacks: Sequence[Any] = (),
    epochs: int = 2,
    **options: Any,
) -> Any:
    """Compiles with these options and gives the history."""
    model.compile(optimizer, "mse", **options)
    return model.fit(x, y, batch, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)).history


def same_weights(one: Any, other: Any, rtol: float = 1e-4, atol: float = 1e-6) -> None:
    for ours, theirs in zip(one.get_weights(), other.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def equal_on_ranks(model: Any) -> bool:
    everyone = hvd.allgather_object(model.get_weights())
    return all(np.array_equal(a, b) for other in everyone[1:] for a, b in zip(everyone[0], other))


def compare_with_one_process(
    wrap: Callable[[Any], Any],
    make: Callable[[], Any],
    alone: Any = None,
    model: Callable[[], Any] = make_model,
    options: Sequence[Any] = (),
    batches: int = 4,
    **tolerance: Any,
) -> Any:
    """``fit`` with the wrapped optimizer on each rank's part against ``alone`` on all; the model of the ranks."""
    x, y, own_x, own_y = make_data(batches)
    ours, one = model(), model()
    fit(ours, wrap(make()), own_x, own_y, BATCH, **dict(options))
    fit(one, (alone or make)(), x, y, BATCH * hvd.size(), **dict(options))
    same_weights(ours, one, **tolerance)
    return ours


def operations(function: Callable[[], Any]) -> int:
    """How many the engine has done in it."""
    before = _native.stats()["operations"]
    function()
    return int(_native.stats()["operations"] - before)
