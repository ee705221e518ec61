"""rueda.tensorflow against NumPy: eager, in tf.function and in graphs of version 1."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import pytest
from ranks import on_ranks

tf = pytest.importorskip("tensorflow")
import rueda.tensorflow as hvd  # noqa: E402

#: A job of its own, without other frameworks; two threads for operations, which is where crosswise waits hang.
ENV = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTEROP_THREADS": "2", "RANKS_OF": "tensorflow"}
DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
MODES = ["eager", "function", "v1"]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)]


def inputs_of(shape: Any, dtype: str, seed: int = 0) -> List[np.ndarray]:
    """Every rank's input, known to all."""
    numbers = [np.random.default_rng([seed, r]).integers(0, 5, size=shape) for r in range(hvd.size())]
    return [np.asarray(each).astype(tf.as_dtype(dtype).as_numpy_dtype) for each in numbers]


def call(mode: str, function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    """The function's results as NumPy, by one of TensorFlow's three ways to run it."""
    if mode == "v1":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(function(*[tf.constant(each) for each in arguments]))
    runner = tf.function(function) if mode == "function" else function
    return tf.nest.map_structure(lambda t: t.numpy(), runner(*[tf.constant(each) for each in arguments]))


def same(got: Any, wanted: Any, dtype: str, what: Any = None) -> None:
    assert np.asarray(got).dtype == tf.as_dtype(dtype).as_numpy_dtype, what
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(wanted, np.float64), rtol=1e-2, err_msg=str(what))
    assert np.shape(got) == np.shape(wanted), what


def total(inputs: List[np.ndarray], dtype: str, op: int) -> np.ndarray:
    stack = np.stack([each.astype(np.float64) for each in inputs])
    if dtype == "bool":
        return {hvd.Sum: stack.any(0), hvd.Max: stack.any(0)}.get(op, stack.all(0)).astype(np.float64)
    result = {
        hvd.Average: lambda: stack.mean(0),
        hvd.Sum: lambda: stack.sum(0),
        hvd.Min: lambda: stack.min(0),
        hvd.Max: lambda: stack.max(0),
        hvd.Product: lambda: stack.prod(0),
    }[op]()
    is_float = "float" in dtype
    return result if is_float else np.trunc(result).astype(tf.as_dtype(dtype).as_numpy_dtype)


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_allreduce(dtype: str, mode: str) -> None:
    for op in [hvd.Sum, hvd.Min, hvd.Max, hvd.Product] + ([hvd.Average] if dtype != "bool" else []):
        inputs = [inputs_of(shape, dtype, i) for i, shape in enumerate(SHAPES)]
        mine = [each[hvd.rank()] for each in inputs]
        results = call(mode, lambda *xs: [hvd.allreduce(x, op=op) for x in xs], *mine)
        for each, result in zip(inputs, results):
            same(result, total(each, dtype, op), dtype, (op, each[0].shape))
        results = call(mode, lambda *xs: hvd.grouped_allreduce(list(xs), op=op), *mine)
        for each, result in zip(inputs, results):
            same(result, total(each, dtype, op), dtype, (op, each[0].shape))


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_operations(dtype: str, mode: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    rows = [inputs_of((r + 1, 2), dtype, r)[r] for r in range(size)]
    same(call(mode, hvd.allgather, rows[rank]), np.concatenate(rows), dtype)
    inputs = inputs_of((2 * size + 1, 3), dtype, 9)
    for root in {0, size - 1}:
        same(call(mode, lambda x: hvd.broadcast(x, root), inputs[rank]), inputs[root], dtype)
    if dtype != "bool":
        parts = np.array_split(total(inputs, dtype, hvd.Sum), size)
        same(call(mode, lambda x: hvd.reducescatter(x, op=hvd.Sum), inputs[rank]), parts[rank], dtype)
    splits = [(rank + i) % size + 1 for i in range(size)]
    sent = inputs_of((sum(range(1, size + 1)), 2), dtype, 5)
    got, received = call(mode, lambda x: hvd.alltoall(x, splits=splits), sent[rank])
    wanted, counts = [], []
    for source in range(size):
        ways = [(source + i) % size + 1 for i in range(size)]
        start = sum(ways[:rank])
        wanted.append(sent[source][start : start + ways[rank]])
        counts.append(ways[rank])
    same(got, np.concatenate(wanted), dtype)
    assert received.tolist() == counts


@on_ranks(2, 3, env=ENV)
def test_gradients() -> None:
    rank, size = hvd.rank(), hvd.size()
    x = tf.Variable(np.arange(1.0, 2 * size + 1) + rank)
    weight = np.arange(1.0, 2 * size + 1)

    def gradient_of(function: Callable[[Any], Any], upstream: Callable[[Any], Any]) -> np.ndarray:
        @tf.function
        def run() -> Any:
            with tf.GradientTape() as tape:
                y = function(x)
                loss = tf.reduce_sum(y * upstream(y))
            return tape.gradient(loss, x)

        return run().numpy()

    scale = lambda y: (rank + 1.0) * tf.range(1.0, tf.cast(tf.shape(y)[0], tf.float64) + 1, dtype=tf.float64)  # noqa: E731
    ranks = np.arange(1.0, size + 1)
    np.testing.assert_allclose(gradient_of(lambda v: hvd.allreduce(v, op=hvd.Sum), scale), ranks.sum() * weight)
    np.testing.assert_allclose(gradient_of(lambda v: hvd.allreduce(v), scale), ranks.mean() * weight)
    gathered = ranks.mean() * np.arange(1.0, 2 * size * size + 1)
    np.testing.assert_allclose(gradient_of(hvd.allgather, scale), gathered[rank * 2 * size : (rank + 1) * 2 * size])
    wanted = ranks.mean() * weight if rank == 0 else np.zeros(2 * size)
    np.testing.assert_allclose(gradient_of(lambda v: hvd.broadcast(v, 0), scale), wanted)
    shares = np.concatenate([r * np.arange(1.0, 3.0) for r in ranks])
    np.testing.assert_allclose(gradient_of(lambda v: hvd.reducescatter(v, op=hvd.Sum), scale), size * shares)
    back = np.concatenate([r * weight[2 * rank : 2 * rank + 2] for r in ranks])
    np.testing.assert_allclose(gradient_of(hvd.alltoall, scale), back)


@on_ranks(2, 3, env=ENV)
def test_adasum() -> None:
    vectors = [np.random.default_rng(r).normal(size=33) for r in range(hvd.size())]

    def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        dot = a @ b
        return (1 - dot / (2 * a @ a)) * a + (1 - dot / (2 * b @ b)) * b

    wanted = pair(vectors[0], vectors[1])
    if hvd.size() == 3:
        wanted = pair(wanted, vectors[2])
    got = call("function", lambda x: hvd.allreduce(x, op=hvd.Adasum), vectors[hvd.rank()])
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert 0 < hvd.orthogonality() < 1.5


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


# ---- Where others hang -------------------------------------------------------------------------------


@on_ranks(2, env=ENV)
def test_ranks_may_start_in_different_orders() -> None:
    order = list(range(20)) if hvd.rank() == 0 else list(reversed(range(20)))

    @tf.function
    def run(x: Any) -> Any:
        results = {i: hvd.allreduce(x * i, op=hvd.Sum, name=f"any.order.{i}") for i in order}
        return [results[i] for i in range(20)]

    for _ in range(5):
        assert [float(y) for y in run(tf.constant(1.0))] == [2.0 * i for i in range(20)]


@on_ranks(2, env=ENV)
def test_equal_calls_are_not_merged_and_unused_ones_hurt_nobody() -> None:
    @tf.function
    def run(x: Any) -> Any:
        hvd.allreduce(x, op=hvd.Sum)  # its result is not used
        constant = hvd.allreduce(tf.constant(2.0), op=hvd.Sum)
        return hvd.allreduce(x, op=hvd.Sum) + hvd.allreduce(x, op=hvd.Sum), constant

    for _ in range(3):
        both, constant = run(tf.constant(1.0))
        assert float(both) == 4.0 and float(constant) == 4.0


@on_ranks(2, env=ENV)
def test_one_rank_may_trace_again() -> None:
    @tf.function
    def run(x: Any) -> Any:
        return hvd.allreduce(tf.reduce_sum(x), op=hvd.Sum)

    assert float(run(tf.ones([4]))) == 8.0
    assert float(run(tf.ones([4 if hvd.rank() == 0 else 3]))) == 7.0


# ---- Version 1 ---------------------------------------------------------------------------------------


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


# ---- Errors ------------------------------------------------------------------------------------------


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", ["eager", "function"])
def test_errors_have_tensorflows_classes(mode: str) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="Mismatched ALLREDUCE tensor shapes"):
        call(mode, lambda x: hvd.allreduce(x, name="shape"), np.ones(2 + hvd.rank(), np.float32))
    wrong = np.float32 if hvd.rank() else np.float64
    with pytest.raises(tf.errors.FailedPreconditionError, match="Mismatched data types"):
        call(mode, lambda x: hvd.allreduce(x, name="type"), np.ones(2, wrong))
    with pytest.raises(ValueError, match="twice"):
        hvd.allreduce(tf.ones(1), average=True, op=hvd.Sum)
    assert hvd.allreduce(tf.ones(1), op=hvd.Sum).numpy() == 2


@on_ranks(2, env=ENV)
def test_numbers_are_asked_when_a_graph_runs() -> None:
    @tf.function
    def ask() -> Any:
        return hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op(), hvd.process_set_included_op()

    assert [int(n) for n in ask()] == [hvd.rank(), 2, hvd.local_rank(), 2, 1]


@on_ranks(3, env=ENV)
def test_process_sets() -> None:
    pair = hvd.add_process_set([0, 2])
    if pair.included():
        got = call("function", lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=pair), np.float32(hvd.rank() + 1))
        assert got == 4
    hvd.barrier()
    hvd.remove_process_set(pair)
