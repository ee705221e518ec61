"""Gradients of rueda.tensorflow's operations: what a rank's input changes in the losses of all ranks, by hand."""

from __future__ import annotations

from typing import Any, Callable, Dict

import numpy as np
import pytest
from ranks import on_ranks
from tensorflow_cases import ENV, MODES, tf

import rueda.tensorflow as hvd


def gradients(mode: str, functions: Dict[str, Callable[[Any], Any]], start: np.ndarray) -> Dict[str, np.ndarray]:
    """Of the sum of (rank + 1) · (1, 2, …) times the result, for each function; all in one graph."""

    def loss(function: Callable[[Any], Any], x: Any) -> Any:
        results = tf.nest.flatten(function(x))
        weights = [(hvd.rank() + 1.0) * tf.range(1.0, tf.cast(tf.shape(y)[0], y.dtype) + 1, dtype=y.dtype) for y in results]
        return tf.add_n([tf.reduce_sum(y * weight) for y, weight in zip(results, weights)])

    def taped(x: Any) -> Dict[str, Any]:
        found = {}
        for name, function in functions.items():
            with tf.GradientTape() as tape:
                tape.watch(x)
                value = loss(function, x)
            found[name] = tape.gradient(value, x)
        return found

    if mode == "v1":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            x = tf.constant(start)
            return session.run({name: tf.gradients(loss(function, x), x)[0] for name, function in functions.items()})
    run = tf.function(taped) if mode == "function" else taped
    return {name: found.numpy() for name, found in run(tf.constant(start)).items()}


@on_ranks(1, 2, 3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_gradients(mode: str) -> None:
    rank, size = hvd.rank(), hvd.size()
    rows = 2 * size
    factors = np.arange(1.0, size + 1)  # of the ranks' losses
    weight = np.arange(1.0, rows + 1)
    inputs = [weight + r for r in range(size)]
    far = np.arange(1.0, rows * size + 1)  # weights of a gathered result
    own_rows = slice(rank * rows, (rank + 1) * rows)
    shares = np.concatenate([factor * np.arange(1.0, 3.0) for factor in factors])
    back = np.concatenate([factor * weight[2 * rank : 2 * rank + 2] for factor in factors])
    parts = [rank + 1] + [0] * (size - 2) + [rows - rank - 1] if size > 1 else [rows]

    functions = {
        "sum": (lambda v: hvd.allreduce(v, op=hvd.Sum), factors.sum() * weight),
        "average": (lambda v: hvd.allreduce(v), factors.mean() * weight),
        "scaled": (
            lambda v: hvd.allreduce(v, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25),
            factors.sum() * weight / 2,
        ),
        "compressed": (lambda v: hvd.allreduce(v, op=hvd.Sum, compression=hvd.Compression.bf16), factors.sum() * weight),
        "group": (lambda v: hvd.grouped_allreduce([v, 2 * v], op=hvd.Sum), 3 * factors.sum() * weight),
        "max": (
            lambda v: hvd.allreduce(v, op=hvd.Max),
            factors.sum() * weight if rank == size - 1 else np.zeros(rows),
        ),
        "min": (lambda v: hvd.allreduce(v, op=hvd.Min), factors.sum() * weight if rank == 0 else np.zeros(rows)),
        "product": (
            lambda v: hvd.allreduce(v, op=hvd.Product),
            factors.sum() * weight * np.prod(inputs, axis=0) / inputs[rank],
        ),
        "allgather": (hvd.allgather, (factors.mean() * far)[own_rows]),
        "gathered group": (lambda v: hvd.grouped_allgather([v, v]), 2 * (factors.mean() * far)[own_rows]),
        "broadcast": (lambda v: hvd.broadcast(v, 0), factors.mean() * weight if rank == 0 else np.zeros(rows)),
        "reducescatter": (lambda v: hvd.reducescatter(v, op=hvd.Sum), size * shares),
        "shares of averages": (lambda v: hvd.reducescatter(v), shares),
        "scattered group": (lambda v: hvd.grouped_reducescatter([v, v], op=hvd.Sum), 2 * size * shares),
        "alltoall": (hvd.alltoall, back),
        "uneven": (lambda v: hvd.alltoall(v, splits=parts)[0], uneven_alltoall(rows, parts)),
    }
    got = gradients(mode, {name: each[0] for name, each in functions.items()}, inputs[rank])
    for name, (_, wanted) in functions.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-2 if name == "compressed" else 1e-12, err_msg=name)


def uneven_alltoall(rows: int, own: Any) -> np.ndarray:
    """What comes back to this rank when rank s sends s + 1 rows to the first and the rest to the last."""
    size = hvd.size()
    splits = [[s + 1] + [0] * (size - 2) + [rows - s - 1] if size > 1 else [rows] for s in range(size)]
    found = []
    for target in range(size):
        before = sum(splits[s][target] for s in range(hvd.rank()))
        found.append((target + 1.0) * np.arange(before + 1.0, before + own[target] + 1))
    return np.concatenate(found)


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_uneven_gathers(mode: str) -> None:
    rank = hvd.rank()
    got = gradients(mode, {"rows": hvd.allgather}, np.ones(2 + rank))["rows"]
    weights = 1.5 * np.arange(1.0, 6.0)
    np.testing.assert_allclose(got, weights[:2] if rank == 0 else weights[2:])


@on_ranks(3, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_gradients_stay_in_the_process_set(mode: str) -> None:
    pair = hvd.add_process_set([0, 2])
    if pair.included():
        functions = {
            "sum": lambda v: hvd.allreduce(v, op=hvd.Sum, process_set=pair),
            "allgather": lambda v: hvd.allgather(v, process_set=pair),
            "broadcast": lambda v: hvd.broadcast(v, 2, process_set=pair),
            "scatter": lambda v: hvd.reducescatter(v, op=hvd.Sum, process_set=pair),
        }
        got = gradients(mode, functions, np.ones(2))
        np.testing.assert_allclose(got["sum"], [4.0, 8.0])
        np.testing.assert_allclose(got["allgather"], [2.0, 4.0] if pair.rank() == 0 else [6.0, 8.0])
        np.testing.assert_allclose(got["broadcast"], [2.0, 4.0] if pair.rank() == 1 else [0.0, 0.0])
        np.testing.assert_allclose(got["scatter"], [2.0, 6.0])
    hvd.barrier()


@on_ranks(2, env=ENV)
@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_adasum_is_adasum(mode: str) -> None:
    """Upstream gradients of the ranks are parallel, 1 to 2: Adasum gives their mean."""
    got = gradients(mode, {"adasum": lambda v: hvd.allreduce(v, op=hvd.Adasum)}, np.ones(3) * (hvd.rank() + 1))
    np.testing.assert_allclose(got["adasum"], 1.5 * np.arange(1.0, 4.0))
