"""Training with rueda.tensorflow is training in one process on the joined batch: the tape, and optimizers of
version 1 in a session."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import pytest
from ranks import on_ranks
from tensorflow_cases import ENV, tf

import rueda.tensorflow as hvd


@on_ranks(2, 3, env=ENV)
@pytest.mark.parametrize("form", ["allgather", "dense"])
def test_tape_is_one_process_on_the_joined_batch(form: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    rng = np.random.default_rng(3)
    table, weights = rng.normal(size=(10, 4)), rng.normal(size=(4, 2))

    def train(ids: np.ndarray, targets: np.ndarray, wrap: Callable[[Any], Any]) -> List[np.ndarray]:
        variables = [tf.Variable(table), tf.Variable(weights)]

        @tf.function
        def step(batch: Any, target: Any) -> None:
            with tf.GradientTape() as tape:
                found = tf.nn.embedding_lookup(variables[0], batch)
                loss = tf.reduce_mean((found @ variables[1] - target) ** 2)
            for variable, gradient in zip(variables, wrap(tape).gradient(loss, variables)):
                if isinstance(gradient, tf.IndexedSlices):
                    variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
                else:
                    variable.assign_sub(0.1 * gradient)

        for batch, target in zip(ids, targets):
            step(tf.constant(batch), tf.constant(target))
        return [variable.numpy() for variable in variables]

    ids, targets = rng.integers(0, 10, size=(5, 4 * size)), rng.normal(size=(5, 4 * size, 2))
    mine = slice(4 * rank, 4 * rank + 4)
    wrap = lambda tape: hvd.DistributedGradientTape(tape, sparse_as_dense=form == "dense")  # noqa: E731
    got = train(ids[:, mine], targets[:, mine], wrap)
    for one, other in zip(got, train(ids, targets, lambda tape: tape)):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@on_ranks(2, env=ENV)
def test_local_sources_stay_local() -> None:
    shared, own = tf.Variable(1.0), tf.Variable(1.0)
    factor = hvd.rank() + 1.0
    with tf.GradientTape() as tape:
        loss = factor * (shared + own)
    tape = hvd.DistributedGradientTape(tape)
    tape.register_local_source(own)
    gradients = tape.gradient(loss, [shared, own])
    assert gradients[0].numpy() == 1.5 and gradients[1].numpy() == factor / 2


@on_ranks(2, 3, env=ENV)
@pytest.mark.parametrize("kind", ["average", "accumulated", "adasum"])
def test_v1_optimizer_with_the_hook(kind: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    passes = 2 if kind == "accumulated" else 1
    with tf.Graph().as_default():
        weight = tf.compat.v1.get_variable("w", initializer=tf.constant([1.0 + rank, 2.0]))
        loss = tf.reduce_sum(weight * tf.constant([1.0 + rank, 0.0 if rank else 1.0]))
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.GradientDescentOptimizer(0.5),
            backward_passes_per_step=passes,
            op=hvd.Adasum if kind == "adasum" else hvd.Average,
        )
        train = optimizer.minimize(loss)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            before = session.run(weight)
            np.testing.assert_array_equal(before, [1.0, 2.0])
            session.run(train)
            if kind == "accumulated":
                np.testing.assert_array_equal(session.run(weight), before)
                session.run(train)
            after = session.run(weight)
    gradients = [np.array([1.0 + r, 0.0 if r else 1.0]) for r in range(size)]
    if kind == "adasum":
        everyone = hvd.allgather(tf.constant([after])).numpy()
        assert (everyone == after).all() and (after < before).any()
        return
    np.testing.assert_allclose(after, before - 0.5 * passes * np.mean(gradients, axis=0), rtol=1e-6)
