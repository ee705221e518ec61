"""rueda.keras with Keras 2 (``tf_keras``), which many scripts for Horovod use: against one process on the
joined batch."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Dict

import numpy as np
import pytest
from ranks import on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

pytest.importorskip("tf_keras")
ENV_2 = {**ENV, "TF_USE_LEGACY_KERAS": "1"}
BATCH = 8


def make_model() -> Any:
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [layers.Dense(20, activation="relu", input_shape=[10]), layers.Dense(2, dtype="float32")]
    )


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


@on_ranks(2, 3, env=ENV_2)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_fit_is_one_process_on_the_joined_batch(kind: str) -> None:
    import horovod.tensorflow.keras as hvd

    rng, size = np.random.default_rng(0), hvd.size()
    x, y = (rng.normal(size=(4 * BATCH * size, width)).astype("float32") for width in (10, 2))
    own = lambda a: a.reshape(-1, size, BATCH, a.shape[1])[:, hvd.rank()].reshape(-1, a.shape[1])  # noqa: E731
    ours, alone = make_model(), make_model()
    ours.compile(hvd.DistributedOptimizer(OPTIMIZERS[kind]()), "mse")
    alone.compile(OPTIMIZERS[kind](), "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    got = ours.fit(own(x), own(y), BATCH, epochs=2, shuffle=False, verbose=0, callbacks=callbacks).history
    wanted = alone.fit(x, y, BATCH * size, epochs=2, shuffle=False, verbose=0).history
    np.testing.assert_allclose(got["loss"], wanted["loss"], rtol=1e-4)
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


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
def test_loading_elastic_and_what_is_missing() -> None:
    import horovod.tensorflow as hvd_tf
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
    for keywords in ({"op": hvd.Adasum}, {"backward_passes_per_step": 2}):
        with pytest.raises(ValueError, match="Keras 3"):
            hvd.DistributedOptimizer(sgd(), **keywords)
    with pytest.raises(ImportError, match="Keras 3"):
        hvd_tf.SyncBatchNormalization
