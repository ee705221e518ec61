"""Where others hang: TensorFlow runs operations in any order, drops them, runs them early, or at once."""

from __future__ import annotations

import resource
import threading
from typing import Any, Callable, List

import numpy as np
import pytest
from ranks import on_ranks
from tensorflow_cases import ENV, MODES, tf

import rueda.tensorflow as hvd

ONE_THREAD = {**ENV, "TF_NUM_INTEROP_THREADS": "1"}
COUNT = 12


def on_few_threads(*sizes: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """On ranks whose TensorFlow has one thread for operations; jobs with two run the other tests."""
    return on_ranks(*sizes, env=ONE_THREAD)


def both_orders(run: Callable[[List[int]], List[float]]) -> None:
    """Rank 1 makes its operations in the opposite order."""
    order = list(range(COUNT))
    found = run(order if hvd.rank() != 1 else order[::-1])
    assert found == [float(hvd.size() * i) for i in range(COUNT)]


def orders_in_a_function() -> None:
    def run(order: List[int]) -> List[float]:
        @tf.function
        def step(x: Any) -> Any:
            results = {i: hvd.allreduce(x * i, op=hvd.Sum, name=f"any.{i}") for i in order}
            return [results[i] for i in range(COUNT)]

        for _ in range(5):
            results = step(tf.constant(1.0))
        return [float(result) for result in results]

    both_orders(run)


def orders_in_a_session() -> None:
    """Nothing puts independent waits in an order here."""

    def run(order: List[int]) -> List[float]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.compat.v1.placeholder(tf.float32, [])
            results = {i: hvd.allreduce(x * i, op=hvd.Sum, name=f"any.{i}") for i in order}
            gathers = [hvd.allgather(results[i][None], name=f"rows.{i}") for i in order]
            for _ in range(5):
                found, _ = session.run([[results[i] for i in range(COUNT)], gathers], {x: 1.0})
        return [float(each) for each in found]

    both_orders(run)


@on_few_threads(2)
def test_any_order_with_one_thread() -> None:
    orders_in_a_function()
    orders_in_a_session()


@on_ranks(2, 3, env=ENV)
def test_any_order_with_two_threads() -> None:
    orders_in_a_function()
    orders_in_a_session()


def check_graphs() -> None:
    size = hvd.size()

    @tf.function
    def unused_equal_and_constant(x: Any) -> Any:
        hvd.allreduce(x, op=hvd.Sum)  # its result is not used
        constant = hvd.allreduce(tf.constant(2.0), op=hvd.Sum)
        return hvd.allreduce(x, op=hvd.Sum) + hvd.allreduce(x, op=hvd.Sum), constant

    @tf.function
    def inner(x: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum)

    @tf.function
    def outer(x: Any) -> Any:
        return inner(x) + 10 * inner(2 * x)

    @tf.function
    def loop(x: Any) -> Any:
        total = tf.constant(0.0)
        for i in tf.range(10):
            total += tf.cast(i, tf.float32) * hvd.allreduce(x * tf.cast(i, tf.float32), op=hvd.Sum)
        return total

    @tf.function
    def branch(x: Any, flag: Any) -> Any:
        return hvd.allreduce(x, op=hvd.Sum) if flag else x

    @tf.function
    def mapped(x: Any) -> Any:
        return tf.map_fn(lambda each: hvd.allreduce(each, op=hvd.Sum), x)

    one = tf.constant(1.0)
    for _ in range(3):
        both, constant = unused_equal_and_constant(one)
        assert float(both) == 2 * size and float(constant) == 2 * size
        assert float(outer(one)) == 21 * size
        assert float(loop(one)) == size * sum(i * i for i in range(10))
        assert float(branch(one, tf.constant(True))) == size and float(branch(one, tf.constant(False))) == 1
        assert mapped(tf.range(4.0)).numpy().tolist() == [size * i for i in range(4)]


@on_few_threads(2)
def test_graphs_with_one_thread() -> None:
    check_graphs()


@on_ranks(1, 2, env=ENV)
def test_graphs_with_two_threads() -> None:
    check_graphs()


@on_ranks(2, env=ENV)
def test_control_flow_and_unused_operations_in_a_session() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x, flag = tf.compat.v1.placeholder(tf.float32, []), tf.compat.v1.placeholder(tf.bool, [])
        hvd.allreduce(x, op=hvd.Sum)  # nobody asks for it
        branch = tf.cond(flag, lambda: hvd.allreduce(x, op=hvd.Sum), lambda: x)
        _, total = tf.while_loop(
            lambda i, _: i < 10,
            lambda i, t: (i + 1, t + hvd.allreduce(x * tf.cast(i, tf.float32), op=hvd.Sum)),
            [0, 0.0],
            parallel_iterations=1,  # more would have the same name in flight
        )
        for _ in range(3):
            assert session.run(branch, {x: 1, flag: True}) == 2 and session.run(branch, {x: 1, flag: False}) == 1
            assert session.run(total, {x: 1}) == 90
            assert session.run([branch, total], {x: 1, flag: True}) == [2, 90]


@on_ranks(2, env=ENV)
def test_functions_may_be_traced_again_and_share_names() -> None:
    @tf.function
    def step(x: Any) -> Any:
        return hvd.allreduce(tf.reduce_sum(x), op=hvd.Sum)

    @tf.function
    def named(x: Any, factor: Any) -> Any:
        return hvd.allreduce(tf.reduce_sum(x) * factor, op=hvd.Sum, name="shared")

    assert float(step(tf.ones([4]))) == 8.0
    assert float(step(tf.ones([4 if hvd.rank() == 0 else 3]))) == 7.0
    assert float(named(tf.ones([4]), 2.0)) == 16.0
    assert float(named(tf.ones([4]), 3.0 if hvd.rank() == 0 else 2.0)) == 20.0
    assert float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="shared")) == 2.0


@on_ranks(2, env=ENV)
def test_functions_on_several_threads() -> None:
    """Each thread has its own names; all of them wait at one time, in another order on each rank."""

    def make(i: int) -> Any:
        return tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum, name=f"thread.{i}"))

    steps, found = [make(i) for i in range(8)], [0.0] * 8

    def run(i: int) -> None:
        for _ in range(5):
            found[i] = float(steps[i](tf.constant(float(i))))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads if hvd.rank() == 0 else threads[::-1]:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2.0 * i for i in range(8)]


@on_ranks(2, env=ENV)
def test_in_the_threads_of_a_dataset() -> None:
    data = tf.data.Dataset.range(6).map(lambda i: hvd.allreduce(tf.cast(i, tf.float32), op=hvd.Sum)).prefetch(2)
    assert [float(each) for each in data] == [2.0 * i for i in range(6)]


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_steps_leave_no_memory(mode: str) -> None:
    """A thousand steps with 100 KB each: what one of them kept would be 100 MB."""
    x = np.ones(12_500, np.float64)
    if mode == "v1":
        graph, session = tf.Graph(), None
        with graph.as_default():
            fed = tf.compat.v1.placeholder(tf.float64, x.shape)
            fetches = [hvd.allreduce(fed), hvd.allgather(fed[:100])]
            session = tf.compat.v1.Session()
        step: Callable[[], Any] = lambda: session.run(fetches, {fed: x})  # noqa: E731
    else:
        both = lambda y: [hvd.allreduce(y), hvd.allgather(y[:100])]  # noqa: E731
        compiled, tensor = tf.function(both) if mode == "function" else both, tf.constant(x)
        step = lambda: compiled(tensor)  # noqa: E731
    for _ in range(100):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        step()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KB
