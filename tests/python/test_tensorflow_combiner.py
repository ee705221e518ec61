"""How tapes and optimizers combine gradients: groups, names that agree, several at once, XLA."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest
from ranks import on_ranks
from test_tensorflow import ENV, tf

keras = pytest.importorskip("keras")
import rueda.tensorflow as hvd  # noqa: E402

COUNT = 7


def make_variables(dtype: str = "float32") -> List[Any]:
    return [tf.Variable(np.full(i + 1, i + 1.0), dtype=dtype) for i in range(COUNT)]


def gradients_of(variables: List[Any], **keywords: Any) -> List[np.ndarray]:
    """Of a loss whose gradients are (rank + 1) times the variable, combined in a graph; twice, since the
    second time the engine knows the names."""

    @tf.function
    def run() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(tf.cast(v, tf.float64) ** 2) for v in variables]) / 2
            loss *= hvd.rank() + 1.0
        return hvd.DistributedGradientTape(tape, **keywords).gradient(loss, variables)

    run()
    return [gradient.numpy() for gradient in run()]


@on_ranks(2, long=(1, 3), env=ENV)
@pytest.mark.parametrize("form", ["int", "too many", "lists"])
@pytest.mark.parametrize("op", ["average", "adasum"])
def test_groups_change_no_result(form: str, op: str) -> None:
    variables = make_variables()
    variables.append(tf.Variable(np.full(3, 2.0)))  # of another type
    keywords: Dict[str, Any] = {
        "int": {"groups": 3},
        "too many": {"groups": 100},
        "lists": {"groups": [[variables[0], variables[7]], [variables[5], variables[2]], []]},
    }[form]
    mean = (hvd.size() + 1) / 2  # of rank + 1; parallel gradients: Adasum is their average
    for v, got in zip(variables, gradients_of(variables, op=hvd.Adasum if op == "adasum" else hvd.Average, **keywords)):
        np.testing.assert_allclose(got, mean * v.numpy(), rtol=1e-6)


@on_ranks(2, env=ENV)
def test_a_group_fails_as_a_whole() -> None:
    tensors = [tf.ones(2), tf.ones(2 + hvd.rank()), tf.ones(3)]
    with pytest.raises(tf.errors.FailedPreconditionError, match="Mismatched ALLREDUCE tensor shapes"):
        hvd.grouped_allreduce(tensors, name="group")
    assert [float(x[0]) for x in hvd.grouped_allreduce([tf.ones(2), tf.ones(3)], op=hvd.Sum, name="group")] == [2, 2]


@on_ranks(1, env=ENV)
def test_wrong_groups() -> None:
    for keywords in ({"groups": -1}, {"groups": "all"}):
        with pytest.raises(ValueError, match="groups"):
            hvd.DistributedGradientTape(tf.GradientTape(), **keywords)


@on_ranks(2, env=ENV)
def test_ranks_may_have_made_other_models_before() -> None:
    for _ in range(3 * hvd.rank()):
        keras.layers.Dense(1).build([None, 2])  # Keras counts its layers' names
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3), keras.layers.Dense(1)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse")
    model.train_on_batch(np.ones([4, 2]), np.ones([4, 1]))
    names = hvd.allgather_object([v.path for v in model.trainable_variables])
    assert names[0] != names[1]


@on_ranks(2, env=ENV)
def test_two_tapes_in_one_function_do_not_meet() -> None:
    first, second = tf.Variable([1.0], name="same"), tf.Variable([2.0, 2.0], name="same")

    @tf.function
    def run() -> Any:
        results = []
        for variable in (first, second):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * (hvd.rank() + 1.0))
            results.append(hvd.DistributedGradientTape(tape).gradient(loss, variable))
        return results

    for _ in range(3):
        assert [gradient.numpy().tolist() for gradient in run()] == [[1.5], [1.5, 1.5]]


@on_ranks(2, env=ENV)
def test_branches_have_the_same_names_on_a_rank_that_has_traced_more() -> None:
    tf.function(lambda x: tf.cond(x > 0, lambda: x + hvd.rank(), lambda: x))(tf.constant(1.0))
    for _ in range(5 * hvd.rank()):
        tf.function(lambda x: tf.cond(x > 0, lambda: x * 2, lambda: x))(tf.constant(1.0))

    @tf.function
    def run(x: Any) -> Any:
        return tf.cond(x[0] > 0, lambda: hvd.allreduce(x, op=hvd.Sum), lambda: x)

    assert run(tf.ones(2)).numpy().tolist() == [2, 2]


@on_ranks(2, env=ENV)
def test_orthogonality_by_variable() -> None:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, use_bias=False, name="only")])
    model.layers[0].kernel.assign([[1.0], [1.0]])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Adasum)
    model.compile(optimizer, "mse")
    mine = np.eye(2)[hvd.rank()].reshape(1, 2)  # gradients that have nothing in common
    model.train_on_batch(mine, np.zeros([1, 1]))
    values = hvd.orthogonality(model.optimizer)
    assert list(values) == [model.layers[0].kernel.path]
    np.testing.assert_allclose(list(values.values()), 1.0, rtol=1e-6)
    np.testing.assert_allclose(model.layers[0].kernel.numpy(), [[0.8], [0.8]], rtol=1e-6)
    same = np.ones([1, 2])
    model.train_on_batch(same, np.zeros([1, 1]))
    np.testing.assert_allclose(list(hvd.orthogonality(model.optimizer).values()), 0.5, rtol=1e-6)


@on_ranks(2, env=ENV)
def test_xla_is_refused_with_what_to_do() -> None:
    calls = [
        lambda x: hvd.allreduce(x),
        lambda x: hvd.grouped_allreduce([x, x]),
        lambda x: hvd.allgather(x),
        lambda x: hvd.broadcast(x, 0),
        lambda x: hvd.alltoall(x),
        lambda x: hvd.reducescatter(x),
        lambda x: hvd.size_op(),
        lambda x: hvd.join(),
    ]
    for call in calls:
        with pytest.raises(tf.errors.UnimplementedError, match="jit_compile=False"):
            tf.function(call, jit_compile=True)(tf.ones(2))
    inside = tf.function(lambda x: x * 2, jit_compile=True)
    assert tf.function(lambda x: hvd.allreduce(inside(x)))(tf.ones(2)).numpy().tolist() == [2, 2]
