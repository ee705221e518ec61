"""rueda.tensorflow.elastic and rueda.keras.elastic, by Horovod's names: states that are kept, and failures
inside of graphs that start over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from ranks import horovodrun, on_ranks, run_script
from test_tensorflow import ENV, tf  # noqa: F401

keras = pytest.importorskip("keras")

import horovod.tensorflow as hvd  # noqa: E402
import horovod.tensorflow.elastic  # noqa: E402
import horovod.tensorflow.keras as hvdk  # noqa: E402
from horovod.common.exceptions import HorovodInternalError  # noqa: E402
from rueda.exceptions import StateError  # noqa: E402


def make_model() -> Any:
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential(
        [keras.Input([4]), keras.layers.Dense(3), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    model.compile(hvdk.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    return model


def assert_equal_on_ranks(values: Any) -> None:
    for everyone in zip(*hvd.allgather_object([np.asarray(each) for each in values])):
        for each in everyone[1:]:
            np.testing.assert_array_equal(each, everyone[0])


@tf.function
def disagree() -> Any:
    """Fails on all ranks."""
    return hvd.allreduce(tf.zeros([3 + hvd.rank()]), name="elastic.disagree")


@on_ranks(1, 2, 3, env=ENV)
def test_a_keras_state_is_saved_restored_and_synced() -> None:
    model = make_model()
    state = hvd.elastic.TensorFlowKerasState(model, batch=hvd.rank() + 3, seen=[hvd.rank()])
    assert model.optimizer.built
    state.sync()
    assert_equal_on_ranks(model.get_weights())
    assert state.batch == 3 and state.seen == [0]
    saved = model.get_weights()
    model.train_on_batch(np.ones((2, 4)), np.ones((2, 1)))
    state.batch, state.seen = 9, [7]
    assert int(model.optimizer.iterations) == 1
    state.restore()
    assert int(model.optimizer.iterations) == 0 and state.batch == 3 and state.seen == [0]
    for one, other in zip(model.get_weights(), saved):
        np.testing.assert_array_equal(one, other)
    assert all(not np.any(v.numpy()) for v in model.optimizer.variables if "momentum" in v.path)


def test_a_model_without_variables_is_refused() -> None:
    with pytest.raises(ValueError, match="build"):
        hvd.elastic.TensorFlowKerasState(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match="no variables"):
        hvd.elastic.TensorFlowState()


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("kind", ["function", "eager"])
def test_a_failure_restores_and_starts_over(kind: str) -> None:
    w = tf.Variable([1.0 + hvd.rank(), 5.0])
    state = hvd.elastic.TensorFlowState(variables=[w], step=0)
    calls: List[int] = []
    resets: List[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    def update() -> None:
        w.assign_add(hvd.allreduce(tf.ones([2]), name="elastic.update"))

    step = tf.function(update) if kind == "function" else update

    @hvd.elastic.run
    def train(state: Any, steps: int, word: str = "") -> str:
        calls.append(state.step)
        while state.step < steps:
            step()
            state.step += 1
            if state.step == 3 and len(calls) == 1:
                (
                    disagree()
                    if kind == "function"
                    else hvd.allreduce(tf.zeros([3 + hvd.rank()]), name="elastic.eager")
                )
            state.commit()
        return word

    assert train(state, 6, word="done") == "done"
    assert calls == [0, 2] and resets == [2]
    np.testing.assert_allclose(w.numpy(), [7.0, 11.0])


@on_ranks(2, env=ENV)
def test_errors_keep_what_they_say() -> None:
    @hvd.elastic.run
    def train(state: Any) -> None:
        disagree()

    with pytest.raises(HorovodInternalError, match="Mismatched") as caught:
        train(hvd.elastic.TensorFlowState(variables=[tf.Variable(1.0)]))
    assert isinstance(caught.value.__cause__, tf.errors.FailedPreconditionError)


@on_ranks(2, env=ENV)
def test_errors_that_are_not_ours_pass() -> None:
    calls: List[int] = []

    @hvd.elastic.run
    def train(state: Any, error: Any) -> None:
        calls.append(1)
        raise error

    for error in (tf.errors.FailedPreconditionError(None, None, "a variable has no value"), KeyError("mine")):
        with pytest.raises(type(error)):
            train(hvd.elastic.TensorFlowState(variables=[tf.Variable(1.0)]), error)
    assert len(calls) == 2


@on_ranks(2, env=ENV)
def test_after_shutdown_nothing_starts_over() -> None:
    calls: List[int] = []

    @hvd.elastic.run
    def train(state: Any) -> None:
        calls.append(1)
        hvd.shutdown()
        tf.function(lambda: hvd.allreduce(tf.ones([2]), name="elastic.gone"))()

    try:
        with pytest.raises(StateError):
            train(hvd.elastic.TensorFlowState(variables=[tf.Variable(1.0)]))
        assert calls == [1]
    finally:
        hvd.init()


@on_ranks(2, env=ENV)
def test_a_session_of_version_1() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        w = tf.compat.v1.get_variable("w", initializer=tf.constant([1.0 + hvd.rank()]))
        more = w.assign_add([1.0])
        bad = hvd.allreduce(tf.zeros([3 + hvd.rank()]), name="elastic.v1")
        session.run(tf.compat.v1.global_variables_initializer())
        state = hvd.elastic.TensorFlowState(step=0)
        calls: List[float] = []

        @hvd.elastic.run
        def train(state: Any) -> None:
            calls.append(float(session.run(w)[0]))
            session.run(more)
            state.commit()
            session.run(more)
            if len(calls) == 1:
                session.run(bad)

        train(state)
        assert calls == [1.0, 2.0] and session.run(w) == [4.0]


@on_ranks(2, env=ENV)
def test_fit_goes_on_where_it_was() -> None:
    model = make_model()
    state = hvdk.elastic.KerasState(model, batch=0, epoch=0)
    calls: List[Any] = []
    seen: List[Any] = []

    class Trouble(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append((state.epoch, state.batch))
            if len(calls) == 1 and state.epoch == 1 and batch == 2:
                disagree()

    updates = [hvdk.elastic.UpdateEpochStateCallback(state), hvdk.elastic.UpdateBatchStateCallback(state)]
    callbacks = [*updates, Trouble(), hvdk.elastic.CommitStateCallback(state, batches_per_commit=2)]
    x, y = np.random.default_rng(hvd.rank()).normal(size=(32, 4)), np.ones((32, 1))

    @hvdk.elastic.run
    def train(state: Any) -> None:
        calls.append((state.epoch, state.batch, int(model.optimizer.iterations)))
        model.fit(x, y, 8, epochs=3 - state.epoch, steps_per_epoch=4, callbacks=callbacks, verbose=0)

    train(state)
    assert calls == [(0, 0, 0), (1, 1, 6)]  # from the commit after the second batch of the second epoch
    assert seen[4:7] == [(1, 0), (1, 1), (1, 2)] and seen[7:9] == [(1, 1), (1, 2)]
    assert state.epoch == 3 and state.batch == 0
    assert_equal_on_ranks(model.get_weights())


LOSES_A_RANK = """
import os, signal
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
worker = hvd.rank()
weights = tf.Variable(tf.zeros([4]))
state = hvd.elastic.TensorFlowState([weights], step=0)


@tf.function
def gradient():
    return hvd.allreduce(tf.fill([4], float(worker + 1)), op=hvd.Sum, name="gradient")


@hvd.elastic.run
def train(state):
    while state.step < 8:
        if worker == 1 and state.step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        weights.assign_add(gradient())
        state.step += 1
        state.commit()


train(state)
print(f"worker {worker} is rank {hvd.rank()} of {hvd.size()}: {weights.numpy()[0]:g}\\n", end="", flush=True)
"""


def test_a_training_goes_on_without_a_rank_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "loses_a_rank.py"
    script.write_text(LOSES_A_RANK)
    ended = run_script(3, script, launcher=(*horovodrun(), "--no-prefix", "--min-np", "2"))
    assert ended.code == 0, ended
    # four steps of 1 + 2 + 3, then four of 1 + 3
    assert sorted(ended.out.splitlines()) == ["worker 0 is rank 0 of 2: 40", "worker 2 is rank 1 of 2: 40"]
