"""SyncBatchNormalization against Keras' layer in one process on the joined batch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from ranks import environment, on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")
import rueda.tensorflow as hvd  # noqa: E402

SHAPES = {"dense": ((5,), -1), "image": ((4, 3, 2), -1), "channels first": ((2, 4, 3), 1)}


def parts(shape: Tuple[int, ...]) -> List[np.ndarray]:
    """Every rank's batch, known to all: of different sizes, far from zero."""
    rng = np.random.default_rng(3)
    return [rng.normal(50, 3, size=(4 + 3 * rank, *shape)).astype("float32") for rank in range(hvd.size())]


def train(
    layer: Any, x: np.ndarray, target: np.ndarray, mask: Any = None, eager: bool = False
) -> Dict[str, np.ndarray]:
    """Output, gradients of a sum over the batch, and moving statistics, of two steps."""

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True, mask=mask)
            loss = tf.reduce_sum(tf.cast(y, tf.float32) * target)
        return y, tape.gradient(loss, [x, *[v.value for v in layer.trainable_variables]])

    run = step if eager else tf.function(step)
    run(tf.constant(x))
    y, (for_x, *for_weights) = run(tf.constant(x))
    weights = {f"gradient of {v.name}": g.numpy() for v, g in zip(layer.trainable_variables, for_weights)}
    moving = {name: getattr(layer, name).numpy() for name in ("moving_mean", "moving_variance")}
    return {"output": y.numpy(), "gradient": for_x.numpy(), **weights, **moving}


def compare(
    kind: str,
    make_mask: Any = None,
    eager: bool = False,
    dtype: str = "float32",
    rtol: float = 2e-3,
    **options: Any,
) -> None:
    shape, axis = SHAPES[kind]
    batches = parts(shape)
    everything = np.concatenate(batches)
    targets = np.random.default_rng(4).normal(size=everything.shape).astype("float32")
    rows = slice(sum(map(len, batches[: hvd.rank()])), sum(map(len, batches[: hvd.rank() + 1])))
    mask = None if make_mask is None else make_mask(everything)
    ours = hvd.SyncBatchNormalization(axis=axis, momentum=0.8, dtype=dtype, **options)
    theirs = keras.layers.BatchNormalization(axis=axis, momentum=0.8, dtype=dtype, **options)
    got = train(
        ours,
        everything[rows].astype(ours.compute_dtype),
        targets[rows],
        None if mask is None else mask[rows],
        eager,
    )
    wanted = train(theirs, everything.astype(ours.compute_dtype), targets, mask)
    for name, value in wanted.items():
        own = got[name]
        if "gradient of" in name:
            own = np.sum(hvd.allgather_object(own), axis=0)  # each rank has its part of the sum
        if name in ("output", "gradient"):
            value = value[rows]
        np.testing.assert_allclose(own, value, rtol=rtol, atol=rtol * 5, err_msg=name)


@on_ranks(2, 3, long=[1], env=ENV)
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("eager", [False, True])
def test_is_one_process_on_the_joined_batch(kind: str, eager: bool) -> None:
    compare(kind, eager=eager)


@on_ranks(2, 3, env=ENV)
def test_masks() -> None:
    compare("dense", lambda x: np.arange(len(x)) % 3 != 1)
    compare("image", lambda x: np.random.default_rng(1).random(x.shape[:-1]) < 0.6)
    compare("dense", lambda x: np.arange(len(x)) < 4)  # one rank alone has anything


@on_ranks(2, env=ENV)
def test_masked_values_may_be_anything() -> None:
    layer = hvd.SyncBatchNormalization()
    x = np.ones((4, 3), "float32")
    x[1] = np.nan
    y = layer(x, training=True, mask=np.array([1, 0, 1, 1], bool)).numpy()
    assert np.isfinite(layer.moving_mean.numpy()).all() and np.isfinite(layer.moving_variance.numpy()).all()
    assert np.isfinite(y[[0, 2, 3]]).all()


@on_ranks(2, env=ENV)
@pytest.mark.parametrize(
    "options", [{"renorm": True}, {"center": False, "scale": False}, {"epsilon": 0.1}], ids=str
)
def test_options_of_the_base(options: Dict[str, Any]) -> None:
    try:
        keras.layers.BatchNormalization(**options)
    except (TypeError, ValueError):
        return  # this Keras has no renormalisation
    compare("dense", **options)


@on_ranks(2, env=ENV)
def test_mixed_precision_sums_in_float32() -> None:
    compare("image", dtype="mixed_float16", rtol=2e-2)
    layer = hvd.SyncBatchNormalization(dtype="mixed_float16", momentum=0.0)
    x = (
        np.full((1000, 2), 300.0, "float16") + np.arange(1000, dtype="float16")[:, None] % 2
    )  # sums and squares overflow
    assert layer(x, training=True).dtype == tf.float16
    np.testing.assert_allclose(layer.moving_mean.numpy(), 300.5, rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.25, rtol=1e-3)


@on_ranks(2, env=ENV)
def test_inference_is_the_bases() -> None:
    layer, plain = hvd.SyncBatchNormalization(), keras.layers.BatchNormalization()
    x = np.random.default_rng(hvd.rank()).normal(size=(6, 3)).astype("float32")
    layer.build(x.shape), plain.build(x.shape)
    for each in (layer, plain):
        each.moving_mean.assign([1, 2, 3]), each.moving_variance.assign([4, 5, 6])
    if hvd.rank() == 0:  # nobody else is needed
        np.testing.assert_array_equal(layer(x), plain(x))
        layer.trainable = False
        np.testing.assert_array_equal(layer(x, training=True), plain(x))


@on_ranks(3, env=ENV)
def test_process_sets() -> None:
    pair = hvd.add_process_set([0, 2])
    try:
        if pair.included():
            layer = hvd.SyncBatchNormalization(process_set=pair, momentum=0.0)
            layer(np.full((2, 1), float(hvd.rank()), "float32"), training=True)
            np.testing.assert_allclose(layer.moving_mean.numpy(), [1.0])
            np.testing.assert_allclose(layer.moving_variance.numpy(), [1.0])
    finally:
        hvd.remove_process_set(pair)


@on_ranks(2, env=ENV)
def test_fit_and_saving() -> None:
    import rueda.keras

    def make(normalise: Any) -> Any:
        keras.utils.set_random_seed(1)
        layers = [keras.Input([6]), keras.layers.Dense(5), normalise(name="norm"), keras.layers.Dense(1)]
        return keras.Sequential(layers)

    rng, size, rank = np.random.default_rng(5), hvd.size(), hvd.rank()
    x, y = rng.normal(size=(64 * size, 6)).astype("float32"), rng.normal(size=(64 * size, 1)).astype("float32")
    own = lambda a: a.reshape(-1, size, 8, a.shape[1])[:, rank].reshape(-1, a.shape[1])  # noqa: E731
    ours, alone = make(hvd.SyncBatchNormalization), make(keras.layers.BatchNormalization)
    ours.compile(rueda.keras.DistributedOptimizer(keras.optimizers.SGD(0.05)), "mse")
    alone.compile(keras.optimizers.SGD(0.05), "mse")
    ours.fit(own(x), own(y), 8, epochs=2, shuffle=False, verbose=0)
    alone.fit(x, y, 8 * size, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        ours.save(f"{folder}/model.keras")
        loaded = keras.models.load_model(f"{folder}/model.keras")
    layer = loaded.get_layer("norm")
    assert type(layer) is hvd.SyncBatchNormalization and layer.process_set is hvd.global_process_set
    assert keras.saving.get_registered_name(type(layer)) == "rueda>SyncBatchNormalization"
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), ours.predict(x, verbose=0))


@on_ranks(2, 3, env=ENV)
def test_branches_side_by_side() -> None:
    """More layers at a time than TensorFlow has threads."""
    inputs = keras.Input([4])
    branches = [hvd.SyncBatchNormalization()(keras.layers.Dense(3 + i)(inputs)) for i in range(6)]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(branches)))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    x = np.random.default_rng(hvd.rank()).normal(size=(64, 4)).astype("float32")
    model.fit(x, x[:, :1], 4, verbose=0)
    assert np.isfinite(model.predict(x, verbose=0)).all()


def test_importing_needs_no_keras() -> None:
    code = """
import sys
sys.modules["keras"] = None  # cannot be imported
import rueda.tensorflow as hvd
from rueda.tensorflow import *
try:
    hvd.SyncBatchNormalization
except ImportError:
    print("fine")
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert ended.stdout == "fine\n", ended.stderr
