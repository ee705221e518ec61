"""TensorFlow and Keras: ranks that do not begin alike are told so, once, unless they broadcast."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Callable, List

import pytest

tf = pytest.importorskip("tensorflow")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import rueda.keras as hvd_keras  # noqa: E402
import rueda.tensorflow as hvd  # noqa: E402
from ranks import on_ranks, run_script  # noqa: E402

STEPS = 4
KINDS = ["eager", "function", "fit", "fit-adasum", "tape-adasum"]


def variables(differ: bool) -> List[Any]:
    """Those of a small model; one element of the second is another on rank 1."""
    second = np.ones((4, 2), np.float32)
    if differ and hvd.rank() == 1:
        second[3, 1] = 2
    return [tf.Variable(tf.ones([3, 4]), name="first"), tf.Variable(second, name="second")]


def train_with_tape(kind: str, own: List[Any], after_first: Callable[[], None]) -> None:
    op = hvd.Adasum if "adasum" in kind else hvd.Average

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(own[0], own[1]) * float(hvd.rank() + 1))
        for variable, gradient in zip(own, hvd.DistributedGradientTape(tape, op=op).gradient(loss, own)):
            variable.assign_sub(0.1 * gradient)

    run = step if kind == "eager" else tf.function(step)
    for i in range(STEPS):
        run()
        if i == 0:
            after_first()


def train_with_fit(kind: str, differ: bool, callbacks: List[Any]) -> None:
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2, name="second")])
    if differ and hvd.rank() == 1:
        kernel, bias = model.layers[1].get_weights()
        kernel[3, 1] += 1
        model.layers[1].set_weights([kernel, bias])
    op = hvd.Adasum if "adasum" in kind else hvd.Average
    model.compile(hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01), op=op), "mse")
    x = np.ones((2 * STEPS, 3), np.float32) * (hvd.rank() + 1)
    model.fit(x, np.zeros((2 * STEPS, 2), np.float32), batch_size=2, verbose=0, callbacks=callbacks)


def warned(kind: str, differ: bool, broadcast: str = "never") -> List[str]:
    """What this rank was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if kind.startswith("fit"):
            callbacks = [] if broadcast == "never" else [hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0)]
            train_with_fit(kind, differ, callbacks)
        else:
            own = variables(differ)
            if broadcast == "before":
                hvd.broadcast_variables(own, root_rank=0)
            after = (lambda: hvd.broadcast_variables(own, root_rank=0)) if broadcast == "after" else (lambda: None)
            train_with_tape(kind, own, after)
    return [str(each.message) for each in caught if "begin alike" in str(each.message)]


@on_ranks(2)
@pytest.mark.parametrize("kind", KINDS)
def test_different_variables_are_named_once(kind: str) -> None:
    said = warned(kind, differ=True)
    assert len(said) == (hvd.rank() == 0), said
    for text in said:
        assert "second" in text and "of shape (4, 2) is not the same on rank 0 and rank 1" in text
        assert "hvd.broadcast_variables(model.variables, root_rank=0)" in text


@on_ranks(2)
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_begin_alike_or_broadcast_are_not_warned(kind: str) -> None:
    assert warned(kind, differ=False) == []
    assert warned(kind, differ=True, broadcast="before") == []
    assert warned(kind, differ=True, broadcast="after") == []


@on_ranks(2)
def test_local_variables_may_differ() -> None:
    own = variables(differ=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(STEPS):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(own[0], own[1]))
            distributed: Any = hvd.DistributedGradientTape(tape)
            distributed.register_local_source(own[1])
            distributed.gradient(loss, own)


SESSION = """
import sys, warnings
import tensorflow as tf
import rueda.tensorflow as hvd

hvd.init()
tf.compat.v1.disable_eager_execution()
weight = tf.compat.v1.get_variable("weight", initializer=tf.fill([2], float(hvd.rank())))
optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
step = optimizer.minimize(tf.reduce_sum(weight * weight))
hooks = [hvd.BroadcastGlobalVariablesHook(0)] if sys.argv[1] == "broadcast" else []
warnings.simplefilter("always")
with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
    for _ in range(4):
        session.run(step)
"""


@pytest.mark.parametrize("how", ["broadcast", "never"])
def test_a_session_of_version_1(tmp_path: Path, how: str) -> None:
    script = tmp_path / "session.py"
    script.write_text(SESSION)
    result = run_script(2, script, how)
    assert result.code == 0, result
    assert result.err.count("variable weight of shape (2,) is not the same") == (how == "never"), result
