"""rueda.keras.callbacks: start values, metrics, learning rates, checkpoints."""

from __future__ import annotations

import os
import tempfile
from typing import Any, List

import numpy as np
import pytest
from ranks import on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")
from keras_models import BATCH, equal_on_ranks, fit, make_data, make_model, same_weights  # noqa: E402

import rueda.keras as hvd  # noqa: E402


def differing_model() -> Any:
    """Of other start values on each rank, and with units that drop out."""
    keras.utils.set_random_seed(hvd.rank())
    layers = [keras.Input([10]), keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
    return keras.Sequential(layers)


@on_ranks(1, 2, 3, env=ENV)
def test_all_ranks_go_on_from_the_values_of_one() -> None:
    _, _, x, y = make_data(4)
    model, root = differing_model(), hvd.size() - 1
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(root)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01 * (1 + hvd.rank())))
    fit(model, optimizer, x, y, BATCH, callbacks=[broadcast])
    assert equal_on_ranks(model)
    np.testing.assert_allclose(float(optimizer.learning_rate), 0.01 * (1 + root), rtol=1e-6)
    states = hvd.allgather_object([v.numpy() for v in model.optimizer.variables])
    assert all(np.array_equal(a, b) for other in states[1:] for a, b in zip(states[0], other))
    seeds = [v.numpy().tolist() for v in model.variables if v.name == "seed_generator_state"]
    everyone = hvd.allgather_object(seeds)
    assert len(seeds) == 1 and all(other != everyone[0] for other in everyone[1:])  # each drops out its own


class Subclassed(keras.Model):
    """Its layers get their variables with the first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.last(self.first(x))


def of_kind(kind: str, seed: int) -> Any:
    keras.utils.set_random_seed(seed)
    if kind == "subclassed":
        return Subclassed()
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)]
    return keras.Sequential([keras.Input([10]), *layers] if kind == "built" else layers)


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("kind", ["built", "lazy", "subclassed"])
def test_the_first_step_is_that_of_one_model(kind: str) -> None:
    """Ranks of different start values end as one process with those of rank 1 does."""
    x, y, own_x, own_y = make_data(3)
    model, alone = of_kind(kind, 5 + hvd.rank()), of_kind(kind, 6)
    for each, optimizer, data, callbacks in (
        (
            model,
            hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)),
            (own_x, own_y, BATCH),
            [hvd.callbacks.BroadcastGlobalVariablesCallback(1)],
        ),
        (alone, keras.optimizers.SGD(0.1, momentum=0.9), (x, y, 2 * BATCH), []),
    ):
        fit(each, optimizer, *data, callbacks=callbacks, epochs=1)
    assert equal_on_ranks(model)
    same_weights(model, alone, rtol=1e-5)


@on_ranks(2, env=ENV)
def test_local_variables_stay() -> None:
    _, _, x, y = make_data(2)
    model = differing_model()
    kernel, bias = model.layers[0].trainable_variables
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[kernel])
    broadcast.register_local_var(bias)
    fit(
        model,
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.01), local_layers=model.layers[0]),
        x,
        y,
        BATCH,
        callbacks=[broadcast],
    )
    kernels = hvd.allgather_object([layer.get_weights()[0] for layer in (model.layers[0], model.layers[2])])
    assert not np.array_equal(kernels[0][0], kernels[1][0]) and np.array_equal(kernels[0][1], kernels[1][1])


@on_ranks(2, 3, env=ENV)
def test_metrics_of_training_and_validation() -> None:
    x, y, own_x, own_y = make_data(4)
    model, alone = make_model(), make_model()
    seen: List[Any] = []

    class Later(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(dict(logs))

    for each, optimizer in (
        (model, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05))),
        (alone, keras.optimizers.SGD(0.05)),
    ):
        each.compile(optimizer, "mse", metrics=["mae"])
    callbacks = [hvd.callbacks.MetricAverageCallback(), Later()]
    got = model.fit(
        own_x,
        own_y,
        BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=(own_x, own_y),
        callbacks=callbacks,
    ).history
    wanted = alone.fit(
        x, y, BATCH * hvd.size(), epochs=2, shuffle=False, verbose=0, validation_data=(x, y)
    ).history
    assert set(got) == {"loss", "mae", "val_loss", "val_mae"}
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-4, err_msg=name)
        assert [each[name] for each in seen] == got[name]


@on_ranks(2, env=ENV)
def test_metrics_that_one_rank_has() -> None:
    _, _, x, y = make_data(2)
    model = make_model()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), "mse")
    validation = {"validation_data": (x, y)} if hvd.rank() == 0 else {}

    class Words(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["phase"] = "warm"  # not a number: left as it is

    callbacks = [Words(), hvd.callbacks.MetricAverageCallback()]
    got = model.fit(x, y, BATCH, epochs=2, verbose=0, callbacks=callbacks, **validation).history
    losses = hvd.allgather_object(got["loss"])
    assert losses[0] == losses[1] and ("val_loss" in got) == (hvd.rank() == 0)


@on_ranks(3, env=ENV)
def test_process_sets() -> None:
    _, _, x, y = make_data(2)
    pair = hvd.add_process_set([0, 2])
    try:
        model = differing_model()
        broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(2, process_set=pair)
        callbacks = [broadcast, hvd.callbacks.MetricAverageCallback(process_set=pair)]
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05), process_set=pair)
        history = fit(model, optimizer, x, y, BATCH, callbacks)
        weights = hvd.allgather_object((model.get_weights()[0].tolist(), history["loss"]))
        assert weights[0] == weights[2] and weights[1][0] != weights[0][0] and weights[1][1] != weights[0][1]
    finally:
        hvd.remove_process_set(pair)


@on_ranks(2, env=ENV)
def test_ranks_with_different_numbers_of_batches_are_refused() -> None:
    model = make_model()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), "mse")
    rows = 8 * (3 + hvd.rank())
    with pytest.raises(ValueError, match=r"\[3, 4\] batches.*steps_per_epoch"):
        model.fit(
            np.ones((rows, 10)),
            np.ones((rows, 2)),
            8,
            verbose=0,
            callbacks=[hvd.callbacks.MetricAverageCallback()],
        )


@on_ranks(1, env=ENV)
@pytest.mark.parametrize("staircase", [True, False])
def test_a_number_is_a_decay(staircase: bool) -> None:
    _, _, x, y = make_data(4)
    model, rates = make_model(), []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            rates.append(float(model.optimizer.learning_rate))

    schedule = hvd.callbacks.LearningRateScheduleCallback(
        0.1, 0.5, start_epoch=1, end_epoch=3, staircase=staircase
    )
    history = fit(
        model,
        hvd.DistributedOptimizer(keras.optimizers.Adam(0.3)),
        x,
        y,
        BATCH,
        epochs=4,
        callbacks=[schedule, Watch()],
    )
    epochs = [e + (0 if staircase else b / 4) for e in (1, 2) for b in range(4)]
    inside = [0.1 * 0.5 ** (e - 1) for e in epochs]
    np.testing.assert_allclose(rates, [0.3] * 4 + inside + [inside[-1]] * 4, rtol=1e-5)
    np.testing.assert_allclose(history["lr"], rates[3::4], rtol=1e-6)


@on_ranks(1, env=ENV)
@pytest.mark.parametrize("correct", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
def test_momentum_correction(correct: bool, nesterov: bool) -> None:
    """Keras' momenta contain the learning rate; corrected, they count as if gathered at the new one."""
    rng = np.random.default_rng(0)
    x, y, w, m = rng.normal(size=(32, 3)), rng.normal(size=(32, 1)), np.zeros((3, 1)), np.zeros((3, 1))
    model = keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
    )
    schedule = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 1 / (1 + epoch), staircase=False, momentum_correction=correct
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.3, momentum=0.9, nesterov=nesterov))
    model.compile(optimizer, "mse")  # the first batch changes its rate, before there are momenta
    model.fit(x, y, 8, epochs=2, shuffle=False, verbose=0, callbacks=[schedule])
    old = 0.1
    for step in range(8):
        new, rows = 0.1 / (1 + step / 4), slice(step % 4 * 8, step % 4 * 8 + 8)
        if correct:
            m = m * new / old
        g, old = x[rows].T @ (x[rows] @ w - y[rows]) * 2 / 8, new
        m = 0.9 * m - new * g
        w = w + (0.9 * m - new * g if nesterov else m)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-4, atol=1e-5)


@on_ranks(1, env=ENV)
def test_learning_rates_that_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="initial_lr"):
        hvd.callbacks.LearningRateScheduleCallback(None, 0.5)
    model = make_model()
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(decay)), "mse")
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
    with pytest.raises(TypeError, match="LearningRateSchedule"):
        model.fit(np.ones((8, 10)), np.ones((8, 2)), verbose=0, callbacks=[schedule])


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("weights_only", [False, True])
def test_the_best_model_is_kept_by_rank_0(weights_only: bool) -> None:
    _, _, x, y = make_data(2)
    model, losses = make_model(), iter([3.0, 1.0, 2.0])
    kept: List[Any] = []

    class Loss(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["val_loss"] = next(losses)
            if epoch == 1:
                kept.extend(model.get_weights())

    with tempfile.TemporaryDirectory() as folder:
        best = hvd.callbacks.BestModelCheckpoint(save_weights_only=weights_only)
        best.filepath = f"{folder}/best" + (".weights.h5" if weights_only else ".keras")
        fit(
            model,
            hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)),
            x,
            y,
            BATCH,
            epochs=3,
            callbacks=[Loss(), best],
        )
        assert os.path.exists(best.filepath) == (hvd.rank() == 0)
        if hvd.rank() == 0:
            loaded = make_model()
            loaded.load_weights(best.filepath) if weights_only else None
            loaded = loaded if weights_only else keras.models.load_model(best.filepath)
            assert all(np.array_equal(a, b) for a, b in zip(loaded.get_weights(), kept))
