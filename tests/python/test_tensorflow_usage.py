"""rueda.tensorflow as scripts use it, beside the plain way: broadcasts in a step, tapes wrapped early, variables by
their other names, variables of version 1, deterministic operations."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ranks import on_ranks, run_script
from tensorflow_cases import ENV, MODES, call, tf

keras = pytest.importorskip("keras")
import rueda.tensorflow as hvd  # noqa: E402


@on_ranks(2, 3, env=ENV)
def test_two_broadcasts_in_one_function() -> None:
    """As in a step that sends the model and then the optimizer, after its first batch."""
    model = [tf.Variable(tf.fill([1000], hvd.rank() + 1.0)) for _ in range(20)]
    optimizer = [tf.Variable(tf.fill([10], hvd.rank() + 5.0)) for _ in range(20)]

    @tf.function
    def send() -> None:
        hvd.broadcast_variables(model, root_rank=0)
        hvd.broadcast_variables(optimizer, root_rank=0)

    for _ in range(20):
        send()
    assert {float(v[0]) for v in model} == {1.0} and {float(v[0]) for v in optimizer} == {5.0}


@on_ranks(2, env=ENV)
def test_broadcast_into_variables_of_a_session_by_their_values() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=np.float32(hvd.rank() + 1))
        values = hvd.broadcast_([variable], root_rank=1)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(values) == [2.0] and session.run(variable) == 2.0


@on_ranks(2, env=ENV)
def test_a_tape_may_be_wrapped_while_it_records() -> None:
    variable = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        loss = variable * variable * (hvd.rank() + 1)
        tape = hvd.DistributedGradientTape(tape)
        gradient = tape.gradient(loss, variable)
    assert float(gradient) == 9.0
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        loss = variable * (hvd.rank() + 1)
    assert [float(tape.gradient(loss, variable)) for _ in range(2)] == [1.5, 1.5]


@on_ranks(2, env=ENV)
def test_local_variables_by_either_name() -> None:
    """A Keras variable holds one of TensorFlow's, which is what a tape has watched."""
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((None, 2))
    own = hvd.rank() + 1.0
    for source in (layer.kernel, layer.kernel.value):
        for sources in ([layer.kernel], [layer.kernel.value], None):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(tf.fill([1, 2], own)))
            tape = hvd.DistributedGradientTape(tape, scale_local_gradients=False)
            tape.register_local_source(source)
            (gradient,) = tape.gradient(loss, sources or tape.watched_variables())
            np.testing.assert_array_equal(gradient, [[own], [own]])


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("several", [False, True])
def test_local_layers_of_a_tape(several: bool) -> None:
    shared, own = (keras.layers.Dense(1, use_bias=False) for _ in range(2))
    x = tf.fill([1, 2], hvd.rank() + 1.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(shared(x) + own(x))
    tape = hvd.PartialDistributedGradientTape(
        tape, local_layers=[own] if several else own, scale_local_gradients=False
    )
    gradients = tape.gradient(loss, [shared.kernel, own.kernel])
    assert [float(gradient[0, 0]) for gradient in gradients] == [1.5, hvd.rank() + 1.0]


@on_ranks(2, env=ENV)
def test_adasum_of_variables_without_resources() -> None:
    """What ``tf.compat.v1.disable_v2_behavior()`` gives: reading one does not copy it."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weight = tf.compat.v1.get_variable("w", initializer=np.zeros(2, np.float32), use_resource=False)
        loss = tf.reduce_sum(weight * np.eye(2, dtype=np.float32)[hvd.rank()])
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        step = hvd.DistributedOptimizer(optimizer, op=hvd.Adasum).minimize(loss)
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        np.testing.assert_array_equal(session.run(weight), [-3.0, -3.0])


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_scales_are_doubles(mode: str) -> None:
    def run(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.1, postscale_factor=1 / 3)

    np.testing.assert_allclose(call(mode, run, np.float64(1)), 0.2 / 3, rtol=1e-15)


@on_ranks(2, env=ENV)
def test_names_of_any_text() -> None:
    parts = [hvd.allreduce(tf.constant(i), op=hvd.Sum, name=f"two\nlines {i}") for i in range(2)]
    assert [int(part) for part in parts] == [0, 2]
    for name in ("long" * 100, "ä" * 200, "1" + "ä" * 200):
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most 255 bytes"):
            hvd.allreduce(tf.constant(1.0), name=name)
    variable = keras.Variable(1.0, name="ü" * 150)
    with tf.GradientTape() as tape:
        loss = variable * (hvd.rank() + 1.0)
    assert float(hvd.DistributedGradientTape(tape).gradient(loss, variable)) == 1.5


@on_ranks(2, env=ENV)
def test_eager_groups_leave_no_memory() -> None:
    """TensorFlow keeps what it has made for a name."""
    tensors = [tf.ones([4])] * 100
    for _ in range(20):
        hvd.grouped_allreduce(tensors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        hvd.grouped_allreduce(tensors)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000  # KB


DETERMINISTIC = """
import tensorflow as tf
import rueda.tensorflow as hvd

tf.keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
hvd.init()
assert float(tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.constant(1.0))) == 2.0
"""


def test_deterministic_operations(tmp_path: Path) -> None:
    """Where random numbers need a seed."""
    script = tmp_path / "deterministic.py"
    script.write_text(DETERMINISTIC)
    finished = run_script(2, script, env=ENV)
    assert finished.code == 0, finished.err


@on_ranks(1, env=ENV)
def test_a_used_optimizer_keeps_the_state_of_variables_with_equal_names() -> None:
    variables = [tf.Variable([0.0, 0.0]) for _ in range(2)]
    optimizer = keras.optimizers.SGD(1.0, momentum=0.9)
    optimizer.apply([tf.constant([1.0, 1.0]), tf.constant([2.0, 2.0])], variables)
    wrapped = hvd.DistributedOptimizer(optimizer)
    assert [m.numpy().tolist() for m in wrapped.momentums] == [[-1.0, -1.0], [-2.0, -2.0]]
