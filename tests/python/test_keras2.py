"""rueda.keras with Keras 2 (``tf_keras``), which many scripts for Horovod use: against one process on the
joined batch."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Dict, Tuple

import numpy as np
import pytest
from adasum import adasum
from ranks import on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

import rueda
from rueda import _native

pytest.importorskip("tf_keras")
ENV_2 = {**ENV, "TF_USE_LEGACY_KERAS": "1"}
BATCH = 8


def make_model() -> Any:
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [layers.Dense(20, activation="relu", input_shape=[10]), layers.Dense(2, dtype="float32")]
    )


def make_data() -> Tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Four joined batches, and what gives this rank's part of each."""
    rng, size, rank = np.random.default_rng(0), rueda.size(), rueda.rank()
    x, y = (rng.normal(size=(4 * BATCH * size, width)).astype("float32") for width in (10, 2))
    return x, y, lambda a: a.reshape(-1, size, BATCH, a.shape[1])[:, rank].reshape(-1, a.shape[1])


def sgd(**options: Any) -> Any:
    return tf.keras.optimizers.SGD(0.05, momentum=0.9, **options)


OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "sgd": sgd,
    "adam": lambda: tf.keras.optimizers.Adam(0.01),
    "clipped": lambda: sgd(global_clipnorm=0.1),
    "legacy": lambda: tf.keras.optimizers.legacy.Adam(0.01, clipnorm=0.1),
    "scaled": lambda: tf.keras.mixed_precision.LossScaleOptimizer(sgd()),
    "schedule": lambda: tf.keras.optimizers.SGD(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
}


@on_ranks(2, long=[3], env=ENV_2)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_fit_is_one_process_on_the_joined_batch(kind: str) -> None:
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()
    ours, alone = make_model(), make_model()
    ours.compile(hvd.DistributedOptimizer(OPTIMIZERS[kind]()), "mse")
    alone.compile(OPTIMIZERS[kind](), "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    got = ours.fit(own(x), own(y), BATCH, epochs=2, shuffle=False, verbose=0, callbacks=callbacks).history
    wanted = alone.fit(x, y, BATCH * hvd.size(), epochs=2, shuffle=False, verbose=0).history
    np.testing.assert_allclose(got["loss"], wanted["loss"], rtol=1e-4)
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@on_ranks(2, env=ENV_2)
@pytest.mark.parametrize("kind", ["sgd", "legacy"])
def test_the_first_step_is_that_of_one_model(kind: str) -> None:
    """Ranks of different start values, whose models are built by the first batch."""
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()

    def train(seed: int, optimizer: Any, x: Any, y: Any, batch: int, callbacks: Any) -> Any:
        tf.keras.utils.set_random_seed(seed)
        model = tf.keras.Sequential([tf.keras.layers.Dense(8), tf.keras.layers.Dense(2)])
        model.compile(optimizer, "mse")
        model.fit(x, y, batch, shuffle=False, verbose=0, callbacks=callbacks)
        return model.get_weights()

    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    ours = train(5 + hvd.rank(), hvd.DistributedOptimizer(OPTIMIZERS[kind]()), own(x), own(y), BATCH, [broadcast])
    alone = train(5, OPTIMIZERS[kind](), x, y, 2 * BATCH, [])
    for one, other in zip(ours, alone):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@on_ranks(2, env=ENV_2)
def test_a_rank_that_overflows_leaves_nobody_alone() -> None:
    import horovod.tensorflow.keras as hvd

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = make_model()
        model.compile(hvd.DistributedOptimizer(sgd()), "mse")  # Keras scales the loss around it
        for factor in (1, 1e30 if hvd.rank() == 1 else 1, 1):
            model.train_on_batch(np.full((4, 10), factor, "float32"), np.ones((4, 2), "float32"))
        weights = hvd.allgather_object([w.tolist() for w in model.get_weights()])
        assert weights[0] == weights[1] and all(np.isfinite(w).all() for w in model.get_weights())
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


@on_ranks(2, env=ENV_2)
def test_loading_and_elastic() -> None:
    import horovod.tensorflow.keras as hvd

    model = make_model()
    model.compile(hvd.DistributedOptimizer(sgd()), "mse")
    x, y = np.ones((4, 10), "float32"), np.full((4, 2), hvd.rank(), "float32")
    model.train_on_batch(x, y)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        assert type(tf.keras.models.load_model(f"{folder}/model.keras").optimizer) is tf.keras.optimizers.SGD
        loaded = hvd.load_model(f"{folder}/model.keras")
    for each in (model, loaded):
        each.train_on_batch(x, y)
    for one, other in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    state = hvd.elastic.KerasState(model, batch=1, epoch=0)
    saved = model.get_weights()
    model.train_on_batch(x, y)
    state.restore()
    assert all(np.array_equal(one, other) for one, other in zip(model.get_weights(), saved))


# ---- Several passes, and Adasum ---------------------------------------------------------------------


@on_ranks(2, long=[3], env=ENV_2)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_two_passes_are_one_process_on_both_batches(kind: str) -> None:
    """Also Adam, which counts the steps. A schedule counts batches, of which the second one's rate is used."""
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()
    ours, alone = make_model(), make_model()
    ours.compile(
        hvd.DistributedOptimizer(OPTIMIZERS[kind](), backward_passes_per_step=2, average_aggregated_gradients=True), "mse"
    )
    alone.compile(OPTIMIZERS[kind](), "mse")
    ours.fit(own(x), own(y), BATCH, epochs=2, shuffle=False, verbose=0)
    joined = (x.reshape(2, -1, 10), y.reshape(2, -1, 2))
    for step in range(4):
        if kind == "schedule":
            alone.optimizer.iterations.assign(2 * step + 1)
        alone.train_on_batch(joined[0][step % 2], joined[1][step % 2])
    assert int(ours.optimizer.iterations) == 4
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@on_ranks(2, env=ENV_2)
@pytest.mark.parametrize("kind", ["sgd", "legacy"])
@pytest.mark.parametrize("op", [rueda.Average, rueda.Adasum])
def test_passes_communicate_only_when_they_must(kind: str, op: int) -> None:
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()
    model = make_model()
    model.compile(hvd.DistributedOptimizer(OPTIMIZERS[kind](), backward_passes_per_step=3, op=op), "mse")
    counts = []
    for _ in range(6):
        before = _native.stats()["operations"]
        model.train_on_batch(own(x)[:BATCH], own(y)[:BATCH])
        counts.append(_native.stats()["operations"] - before)
    # one for each variable; the first also compares how the ranks begin
    assert counts == [0, 0, 5, 0, 0, 4]
    weights = hvd.allgather_object([w.tolist() for w in model.get_weights()])
    assert weights[0] == weights[1]


@on_ranks(2, env=ENV_2)
def test_sums_are_not_divided() -> None:
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()
    ours, alone = make_model(), make_model()
    ours.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.05), backward_passes_per_step=2), "mse")
    alone.compile(tf.keras.optimizers.SGD(0.1), "mse")
    for first in (0, BATCH):
        ours.train_on_batch(own(x)[first : first + BATCH], own(y)[first : first + BATCH])
    alone.train_on_batch(x[: 2 * 2 * BATCH], y[: 2 * 2 * BATCH])
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@on_ranks(2, long=[3], env=ENV_2)
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("eager", [False, True])
def test_adasum_of_each_ranks_step(kind: str, eager: bool) -> None:
    """A step of each rank's optimizer alone, combined by the definition; two of them."""
    import horovod.tensorflow.keras as hvd

    x, y, own = make_data()
    ours, alone = make_model(), make_model()
    ours.compile(hvd.DistributedOptimizer(OPTIMIZERS[kind](), op=hvd.Adasum), "mse", run_eagerly=eager)
    alone.compile(OPTIMIZERS[kind](), "mse")
    for first in (0, BATCH):
        before = alone.get_weights()
        batch = own(x)[first : first + BATCH], own(y)[first : first + BATCH]
        ours.train_on_batch(*batch)
        alone.train_on_batch(*batch)
        changes = hvd.allgather_object([new - old for new, old in zip(alone.get_weights(), before)])
        alone.set_weights([old + adasum(each) for old, each in zip(before, zip(*changes))])
        for one, other in zip(ours.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    assert 0 < hvd.orthogonality() < 2


@on_ranks(2, env=ENV_2)
@pytest.mark.parametrize("keywords", [{"op": rueda.Adasum}, {"backward_passes_per_step": 2}], ids=str)
@pytest.mark.parametrize("kind", ["sgd", "legacy"])
def test_ranks_skip_a_step_together(keywords: Dict[str, Any], kind: str) -> None:
    import horovod.tensorflow.keras as hvd

    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = make_model()
        model.compile(hvd.DistributedOptimizer(OPTIMIZERS[kind](), **keywords), "mse")
        for factor in (1, 1, 1e30 if hvd.rank() == 1 else 1, 1, 1):
            model.train_on_batch(np.full((4, 10), factor * (1 + hvd.rank()), "float32"), np.ones((4, 2), "float32"))
        weights = hvd.allgather_object([w.tolist() for w in model.get_weights()])
        assert weights[0] == weights[1] and all(np.isfinite(w).all() for w in model.get_weights())
        assert any(not np.array_equal(a, b) for a, b in zip(model.get_weights(), make_model().get_weights()))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


# ---- SyncBatchNormalization -------------------------------------------------------------------------


@on_ranks(2, long=(1, 3), env=ENV_2)
@pytest.mark.parametrize("shape, axis", [((5,), -1), ((4, 3, 2), -1), ((2, 4, 3), 1), ((3, 4), [1, 2])], ids=str)
@pytest.mark.parametrize("mask", [False, True])
def test_sync_batch_normalization_is_one_process(shape: Tuple[int, ...], axis: Any, mask: bool) -> None:
    """Batches of different sizes, far from zero: outputs, gradients of a sum over the batch, moving statistics."""
    import horovod.tensorflow as hvd

    if mask and axis != -1:
        return  # Keras' own masks are for channels that come last
    rng = np.random.default_rng(3)
    batches = [rng.normal(50, 3, size=(4 + 3 * rank, *shape)).astype("float32") for rank in range(hvd.size())]
    everything, start = np.concatenate(batches), sum(map(len, batches[: hvd.rank()]))
    rows = slice(start, start + len(batches[hvd.rank()]))
    target = rng.normal(size=everything.shape).astype("float32")
    kept = np.arange(everything[..., 0].size).reshape(everything.shape[:-1]) % 3 != 1 if mask else None

    def train(layer: Any, which: slice) -> Any:
        @tf.function
        def step(values: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(values)
                output = layer(values, training=True, mask=None if kept is None else tf.constant(kept[which]))
                loss = tf.reduce_sum(output * target[which])
            return output, tape.gradient(loss, [values, *layer.trainable_variables])

        layer.build(everything.shape)
        output, (for_values, *for_weights) = step(tf.constant(everything[which]))
        return output, for_values, [g.numpy() for g in for_weights], layer.moving_mean, layer.moving_variance

    ours = train(hvd.SyncBatchNormalization(axis=axis, momentum=0.8, fused=False), rows)
    alone = train(tf.keras.layers.BatchNormalization(axis=axis, momentum=0.8, fused=False), slice(None))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-2)  # noqa: E731
    close(ours[0], alone[0][rows])
    close(ours[1], alone[1][rows])
    for one, other in zip(zip(*hvd.allgather_object(ours[2])), alone[2]):
        close(np.sum(one, axis=0), other)
    close(ours[3], alone[3])
    close(ours[4], alone[4])


@on_ranks(2, env=ENV_2)
def test_a_model_with_it_trains_and_is_saved() -> None:
    import horovod.tensorflow as hvd_tf
    import horovod.tensorflow.keras as hvd

    def make(normalise: Any) -> Any:
        tf.keras.utils.set_random_seed(1)
        dense = tf.keras.layers.Dense
        return tf.keras.Sequential([dense(6, input_shape=[10]), normalise(name="norm"), dense(2)])

    x, y, own = make_data()
    ours, alone = make(hvd_tf.SyncBatchNormalization), make(tf.keras.layers.BatchNormalization)
    ours.compile(hvd.DistributedOptimizer(sgd()), "mse")
    alone.compile(sgd(), "mse")
    ours.fit(own(x), own(y), BATCH, epochs=2, shuffle=False, verbose=0)
    alone.fit(x, y, BATCH * hvd.size(), epochs=2, shuffle=False, verbose=0)
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        ours.save(f"{folder}/model.keras")
        loaded = tf.keras.models.load_model(f"{folder}/model.keras")
    assert type(loaded.get_layer("norm")) is hvd_tf.SyncBatchNormalization
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), ours.predict(x, verbose=0))
