"""rueda.keras: fit on ranks is fit in one process on the joined batches."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Dict, Tuple

import numpy as np
import pytest
from ranks import on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")
from keras_models import BATCH, fit, make_data, make_model  # noqa: E402

import rueda.keras as hvd  # noqa: E402


def callbacks() -> Any:
    return [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]


OPTIMIZERS: Dict[str, Tuple[Callable[[], Any], Callable[[], Any]]] = {
    "sgd": (lambda: keras.optimizers.SGD(0.05, momentum=0.9),) * 2,
    "adam": (lambda: keras.optimizers.Adam(0.01),) * 2,
    "clipped": (lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.5),) * 2,
    "accumulating": (lambda: keras.optimizers.SGD(0.05, gradient_accumulation_steps=2),) * 2,
}


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("kind", list(OPTIMIZERS))
def test_fit_is_one_process_on_the_joined_batch(kind: str) -> None:
    x, y, own_x, own_y = make_data()
    ours, alone = make_model(), make_model()
    got = fit(ours, hvd.DistributedOptimizer(OPTIMIZERS[kind][0]()), own_x, own_y, BATCH, callbacks())
    wanted = fit(alone, OPTIMIZERS[kind][1](), x, y, BATCH * hvd.size())
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got["loss"], wanted["loss"], rtol=1e-4)


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("average", [True, False])
def test_passes_per_step(average: bool) -> None:
    x, y, own_x, own_y = make_data()
    ours, alone = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.02), backward_passes_per_step=2, average_aggregated_gradients=average
    )
    fit(ours, optimizer, own_x, own_y, BATCH, callbacks())
    fit(alone, keras.optimizers.SGD(0.02 if average else 0.04, gradient_accumulation_steps=2), x, y, 2 * BATCH)
    for one, other in zip(ours.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@on_ranks(2, 3, env=ENV)
def test_adasum_of_updates() -> None:
    _, _, own_x, own_y = make_data()
    model = make_model()
    start = [w.copy() for w in model.get_weights()]
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), op=hvd.Adasum), "mse")
    alone = make_model()
    alone.compile(keras.optimizers.SGD(0.05), "mse")
    model.train_on_batch(own_x[:BATCH], own_y[:BATCH])
    alone.train_on_batch(own_x[:BATCH], own_y[:BATCH])
    changes = [after - before for after, before in zip(alone.get_weights(), start)]
    everyone = hvd.allgather_object(changes)
    for i, (before, after) in enumerate(zip(start, model.get_weights())):
        combined = everyone[0][i].astype(np.float64)
        for leaves, change in enumerate(everyone[1:], 1):
            a, b = combined.ravel(), change[i].astype(np.float64).ravel()
            own = 1 - leaves / (leaves + 1) * (a @ b) / (a @ a) if a @ a else 1.0
            other = 1 - 1 / (leaves + 1) * (a @ b) / (b @ b) if b @ b else 1.0
            combined = (own * a + other * b).reshape(combined.shape)
        np.testing.assert_allclose(after, before + combined, rtol=1e-4, atol=1e-6)
    assert 0 < hvd.orthogonality() < 2


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("op", ["average", "adasum"])
def test_a_rank_that_overflows_leaves_nobody_alone(op: str) -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = make_model()
        optimizer = hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.01), op=hvd.Adasum if op == "adasum" else hvd.Average
        )
        model.compile(optimizer, "mse")
        assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        x, y = np.ones((4, 10), "float32"), np.ones((4, 2), "float32")
        model.train_on_batch(x, y)
        if hvd.rank() == 1:
            x = x * np.float32(1e30)
        model.train_on_batch(x, y)
        model.train_on_batch(np.ones((4, 10), "float32"), y)
        weights = hvd.allgather_object([w.sum() for w in model.get_weights()])
        assert weights[0] == weights[1] and np.isfinite(weights[0]).all()
    finally:
        keras.mixed_precision.set_global_policy("float32")


@on_ranks(2, env=ENV)
def test_saved_models_come_back_distributed() -> None:
    _, _, own_x, own_y = make_data()
    model = make_model()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), own_x, own_y, BATCH, callbacks())
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        plain = keras.models.load_model(f"{folder}/model.keras")
        loaded = hvd.load_model(f"{folder}/model.keras")
    assert type(plain.optimizer) is keras.optimizers.Adam
    assert isinstance(loaded.optimizer, keras.optimizers.Adam) and hasattr(loaded.optimizer, "register_local_var")
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)
    for batch in range(2):
        part = slice(batch * BATCH, (batch + 1) * BATCH)
        model.train_on_batch(own_x[part], own_y[part])
        loaded.train_on_batch(own_x[part], own_y[part])
    for one, other in zip(model.get_weights(), loaded.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@on_ranks(2, env=ENV)
def test_learning_rates() -> None:
    _, _, own_x, own_y = make_data()
    model = make_model()
    warm_up = hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2)
    later = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5, start_epoch=2)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)), "mse")
    history = model.fit(own_x, own_y, BATCH, epochs=3, verbose=0, callbacks=[warm_up, later]).history
    np.testing.assert_allclose(history["lr"], [0.1 * (0.5 * 1 + 1) / 2, 0.1, 0.05], rtol=1e-5)
    assert model.optimizer.momentum == 0.9


@on_ranks(1, 2, env=ENV)
def test_momentum_follows_the_learning_rate() -> None:
    """Steps whose velocity is of gradients alone, times the rate of the step, as other frameworks make them."""
    x, y, own_x, own_y = make_data()
    joined, weights = BATCH * hvd.size(), np.zeros((10, 2), "float32")
    model = keras.Sequential([keras.Input([10]), keras.layers.Dense(2, use_bias=False, kernel_initializer="zeros")])
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 1 / (1 + 4 * epoch), staircase=False)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    fit(model, optimizer, own_x, own_y, BATCH, [schedule])
    velocity = np.zeros_like(weights)
    for step in range(2 * len(x) // joined):
        i = step * joined % len(x)
        error = x[i : i + joined] @ weights - y[i : i + joined]
        velocity = 0.9 * velocity + x[i : i + joined].T @ error / joined  # of the mean over two outputs
        weights = weights - 0.1 / (1 + 4 * step / 8) * velocity
    np.testing.assert_allclose(model.get_weights()[0], weights, rtol=1e-3, atol=1e-5)
