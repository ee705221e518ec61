"""rueda.keras: ways to make, run, scale and save models."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict

import numpy as np
import pytest
from ranks import environment, on_ranks
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")
from keras_models import (  # noqa: E402
    BATCH,
    compare_with_one_process,
    equal_on_ranks,
    fit,
    make_data,
    make_model,
    operations,
    same_weights,
)

import rueda.keras as hvd  # noqa: E402


def sgd() -> Any:
    return keras.optimizers.SGD(0.05, momentum=0.5)


class Subclassed(keras.Model):
    """Without an input: built by its first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(20, activation="relu"), keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


class OwnStep(Subclassed):
    """With a step of its own."""

    def train_step(self, data: Any) -> Dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}


def functional() -> Any:
    keras.utils.set_random_seed(1)
    inputs = keras.Input([10])
    hidden = keras.layers.Dense(8, activation="tanh")(inputs)
    both = keras.layers.Concatenate()([hidden, inputs])
    return keras.Model(inputs, keras.layers.Dense(2)(both))


def seeded(kind: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: (keras.utils.set_random_seed(1), kind())[1]


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("kind", ["functional", "subclassed", "own step", "eager", "auto", "no graph", "steps"])
def test_ways_to_make_and_run(kind: str) -> None:
    model = {"functional": functional, "subclassed": seeded(Subclassed), "own step": seeded(OwnStep)}.get(
        kind, make_model
    )
    options = {
        "eager": {"run_eagerly": True},
        "auto": {"jit_compile": "auto"},
        "no graph": {"jit_compile": False},
        "steps": {"steps_per_execution": 2},
    }.get(kind, {})
    ours = compare_with_one_process(hvd.DistributedOptimizer, sgd, model=model, options=list(options.items()))
    assert equal_on_ranks(ours)


@on_ranks(2, env=ENV)
def test_train_on_batch_and_own_loop() -> None:
    x, y, own_x, own_y = make_data(2)
    ours, looped, alone = make_model(), make_model(), make_model()
    ours.compile(hvd.DistributedOptimizer(sgd()), "mse")
    alone.compile(sgd(), "mse")
    optimizer = hvd.DistributedOptimizer(sgd())

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(looped(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, looped.trainable_variables), looped.trainable_variables)

    optimizer.build(looped.trainable_variables)
    for i in range(2):
        rows, all_rows = slice(i * BATCH, (i + 1) * BATCH), slice(i * 2 * BATCH, (i + 1) * 2 * BATCH)
        ours.train_on_batch(own_x[rows], own_y[rows])
        step(own_x[rows], own_y[rows])
        alone.train_on_batch(x[all_rows], y[all_rows])
    same_weights(ours, alone)
    same_weights(looped, alone)


class Halving(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that Keras does not know by name."""

    def __call__(self, step: Any) -> Any:
        return 0.1 * 0.5 ** tf.cast(step, tf.float32)

    def get_config(self) -> Dict[str, Any]:
        return {}


@on_ranks(2, env=ENV)
def test_schedules_of_the_users_own() -> None:
    class Local(Halving):
        pass

    for kind in (Halving, Local):
        schedule = kind()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(schedule))
        assert optimizer._learning_rate is schedule
    compare_with_one_process(hvd.DistributedOptimizer, lambda: keras.optimizers.SGD(Halving()), batches=2)


# ---- Mixed precision --------------------------------------------------------------------------------


def scale_around(optimizer: Any) -> Any:
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)


WAYS: Dict[str, Callable[[Any], Any]] = {
    "inside": lambda o: hvd.DistributedOptimizer(scale_around(o)),
    "outside": lambda o: scale_around(hvd.DistributedOptimizer(o)),
    "by Keras": hvd.DistributedOptimizer,  # the model's policy alone says so
    "inside, accumulating": lambda o: hvd.DistributedOptimizer(scale_around(o), backward_passes_per_step=2),
    "outside, accumulating": lambda o: scale_around(hvd.DistributedOptimizer(o, backward_passes_per_step=2)),
    "inside, Adasum": lambda o: hvd.DistributedOptimizer(scale_around(o), op=hvd.Adasum),
    "outside, Adasum": lambda o: scale_around(hvd.DistributedOptimizer(o, op=hvd.Adasum)),
}


def mixed_model() -> Any:
    keras.utils.set_random_seed(1)
    policy = keras.DTypePolicy("mixed_float16")
    layers = [
        keras.Input([10]),
        keras.layers.Dense(20, activation="relu", dtype=policy),
        keras.layers.Dense(2, dtype="float32"),
    ]
    model = keras.Sequential(layers)
    model.dtype_policy = policy
    return model


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("way", WAYS)
def test_mixed_precision(way: str) -> None:
    model = mixed_model()
    model.compile(WAYS[way](keras.optimizers.SGD(0.05)), "mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    _, _, x, y = make_data(4)
    part = lambda i: (x[i * BATCH : (i + 1) * BATCH], y[i * BATCH : (i + 1) * BATCH])  # noqa: E731
    counts = operations(lambda: model.train_on_batch(*part(0)))
    # whether all are finite, how the ranks begin, and the gradients
    assert counts == (1 if "accumulating" in way else 6), counts
    scale = float(model.optimizer.dynamic_scale)
    bad, wanted = part(1)
    model.train_on_batch(bad * np.float32(1e30 if hvd.rank() == 1 else 1), wanted)  # one rank overflows
    assert float(model.optimizer.dynamic_scale) == scale / 2  # and all ranks have skipped
    steps = model.optimizer.inner_optimizer._iterations  # also those that accumulate
    assert int(steps) == 1
    for i in (2, 3):
        model.train_on_batch(*part(i))
    assert int(steps) == 3
    if "accumulating" not in way:
        assert equal_on_ranks(model)
    model.train_on_batch(*part(0))
    assert equal_on_ranks(model) and all(np.isfinite(w).all() for w in model.get_weights())


@on_ranks(2, env=ENV)
def test_mixed_precision_is_one_process_on_the_joined_batch() -> None:
    for way in ("inside", "outside"):
        compare_with_one_process(
            WAYS[way], sgd, lambda: scale_around(sgd()), model=mixed_model, rtol=2e-2, atol=2e-3
        )


@on_ranks(2, env=ENV)
def test_a_loop_of_ones_own_scales_what_it_scales() -> None:
    """A policy for all layers must not make an optimizer divide by a scale that nobody has multiplied by."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model, optimizer = mixed_model(), hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
        before = model.get_weights()[0]
        optimizer.apply([tf.ones(v.shape) for v in model.trainable_variables], model.trainable_variables)
        np.testing.assert_allclose(model.get_weights()[0], before - 1, rtol=1e-5)
    finally:
        keras.mixed_precision.set_global_policy("float32")


@on_ranks(1, env=ENV)
def test_auto_never_means_xla() -> None:
    """On a machine with a GPU Keras would compile the step, and XLA has no operations of ours."""
    plain, ours, outside = make_model(), make_model(), make_model()
    devices = tf.config.list_physical_devices
    tf.config.list_physical_devices = lambda kind=None: [
        *devices(kind),
        tf.config.PhysicalDevice("/GPU:0", "GPU"),
    ]
    try:
        plain.compile(sgd(), "mse")
        ours.compile(hvd.DistributedOptimizer(sgd()), "mse")
        outside.compile(WAYS["outside"](sgd()), "mse")
    finally:
        tf.config.list_physical_devices = devices
    assert plain.jit_compile and not ours.jit_compile and not outside.jit_compile


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("way", ["plain", "inside"])
def test_from_config_gives_another_distributed_one(way: str) -> None:
    """Scripts reset optimizers by it."""
    once = (WAYS.get(way) or hvd.DistributedOptimizer)(keras.optimizers.Adam(0.01))
    model = make_model()
    _, _, x, y = make_data(2)
    fit(model, type(once).from_config(once.get_config()), x, y, BATCH)
    assert equal_on_ranks(model)


@on_ranks(2, env=ENV)
def test_values() -> None:
    rank = hvd.rank()
    assert float(hvd.allreduce(float(rank))) == 0.5 and hvd.allreduce(rank, op=hvd.Sum) == 1
    assert hvd.allgather(np.array([rank])).numpy().tolist() == [0, 1]
    assert hvd.broadcast(np.array([rank + 5]), root_rank=1).numpy().tolist() == [6]
    assert hvd.reducescatter(np.arange(4.0), op=hvd.Sum).numpy().tolist() == ([0, 2] if rank == 0 else [4, 6])


# ---- Saving -----------------------------------------------------------------------------------------


class OwnSGD(keras.optimizers.SGD):
    """An optimizer that Keras does not know by name."""


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("kind", ["own", "scaled"])
def test_load_model(kind: str) -> None:
    _, _, x, y = make_data(2)
    model = make_model()
    make = {"own": lambda: OwnSGD(0.05, momentum=0.5), "scaled": lambda: scale_around(sgd())}[kind]
    fit(model, hvd.DistributedOptimizer(make()), x, y, BATCH)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        loaded = hvd.load_model(
            f"{folder}/model.keras", custom_optimizers=[OwnSGD], compression=hvd.Compression.fp16
        )
    assert isinstance(loaded.optimizer, type(make())) and int(loaded.optimizer.iterations) == 4
    for each in (model, loaded):
        each.train_on_batch(x[:BATCH], y[:BATCH])
    same_weights(model, loaded, rtol=1e-2, atol=1e-3)
    assert any(np.any(a != b) for a, b in zip(model.get_weights(), loaded.get_weights()))  # it was compressed
    assert equal_on_ranks(loaded)


@on_ranks(2, env=ENV)
def test_weights_alone_and_a_resumed_checkpoint() -> None:
    _, _, x, y = make_data(4)
    model, resumed, never = make_model(), make_model(), make_model()
    fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), x, y, BATCH, epochs=1)
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(f"{folder}/model.weights.h5")
        resumed.load_weights(f"{folder}/model.weights.h5")
        same_weights(resumed, model, 0, 0)
        model.save(f"{folder}/model.keras")
        if hvd.rank() == 0:  # the others start anew and get what rank 0 has loaded
            resumed = hvd.load_model(f"{folder}/model.keras")
        else:
            resumed = never
            resumed.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    resumed.fit(x, y, BATCH, epochs=1, shuffle=False, verbose=0, callbacks=[broadcast])
    assert equal_on_ranks(resumed)
    states = hvd.allgather_object([v.numpy() for v in resumed.optimizer.variables])
    assert all(np.array_equal(a, b) for a, b in zip(*states))
    assert int(resumed.optimizer.iterations) == 8


# ---- Other Kerases ----------------------------------------------------------------------------------


def test_another_backend_is_told() -> None:
    env = environment({"KERAS_BACKEND": "numpy"})  # needs nothing that may not be there
    ended = subprocess.run(
        [sys.executable, "-c", "import rueda.keras"], env=env, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1
    assert "rueda.keras works with Keras on TensorFlow; here KERAS_BACKEND is 'numpy'" in ended.stderr
    fine = "import rueda.tensorflow as hvd; print(hvd.Average)"
    ended = subprocess.run([sys.executable, "-c", fine], env=env, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "Average\n", ended.stderr
