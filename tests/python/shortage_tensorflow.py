"""Run by test_shortage.py: TensorFlow's operations while one call after the other of rueda's kernels fails."""

from __future__ import annotations

import itertools

import numpy as np
import rueda.tensorflow as hvd
import tensorflow as tf
from rueda.tensorflow import _library
from shortage import LOST_MOST, Trials

ELEMENTS = LOST_MOST // 4 + 1
numbers = itertools.count()


def name() -> str:
    return f"tensor {next(numbers)}"


def reduce_one() -> None:
    assert hvd.allreduce(tf.constant([3.0]), op=hvd.Sum, name=name()).numpy() == [3.0]


def reduce_group() -> None:
    results = hvd.grouped_allreduce([tf.fill([ELEMENTS], float(i)) for i in range(3)], op=hvd.Sum, name=name())
    assert [float(each[-1]) for each in results] == [0.0, 1.0, 2.0]


def gather() -> None:
    values = np.full(ELEMENTS, 2.0, np.float32)
    assert np.array_equal(hvd.allgather(tf.constant(values), name=name()).numpy(), values)


def exchange() -> None:
    values = np.full(ELEMENTS, 5.0, np.float32)
    result, splits = hvd.alltoall(tf.constant(values), splits=tf.constant([ELEMENTS]), name=name())
    assert np.array_equal(result.numpy(), values) and splits.numpy().tolist() == [ELEMENTS]


@tf.function
def both(x: tf.Tensor) -> tf.Tensor:
    return hvd.allreduce(x, op=hvd.Sum, name="first") + hvd.allreduce(x + 1.0, op=hvd.Sum, name="second")


def in_a_graph() -> None:
    """Where other threads end the kernels."""
    assert both(tf.constant([3.0])).numpy() == [7.0]


hvd.init()
trials = Trials(_library._PATH, (tf.errors.ResourceExhaustedError,))
for step in [reduce_one, reduce_group, gather, exchange, in_a_graph]:
    step()
    trials.run(step)
hvd.shutdown()
print(trials.failed, "calls have failed")
