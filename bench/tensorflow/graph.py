"""What a tensor costs in a graph of many small gradients, over the engine's own time: a ``tf.function``
that combines them, beside the same function without the combining, beside the same tensors by the engine
alone (the C extension, one call for each tensor, then one wait for each).

    rueda run -np 2 --bind core python bench/tensorflow/graph.py
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, Callable, Dict, List

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import rueda.numpy
import rueda.tensorflow as hvd

TENSORS = 100
ELEMENTS = 8
ROUNDS, REPEATS = 30, 20


def in_turns(calls: Dict[str, Callable[[], Any]]) -> Dict[str, float]:
    """Median microseconds of one call of each, in short alternating slices."""
    times: Dict[str, List[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            hvd.barrier()
            for _ in range(REPEATS):
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
    return {name: 1e6 * statistics.median(each) for name, each in times.items()}


def make_calls() -> Dict[str, Callable[[], Any]]:
    variables = [tf.Variable(tf.ones([ELEMENTS])) for _ in range(TENSORS)]

    def gradients(wrap: Callable[[Any], Any]) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v * v) for v in variables])
        return tf.add_n(wrap(tape).gradient(loss, variables))

    plain = tf.function(lambda: gradients(lambda tape: tape))
    combined = tf.function(lambda: gradients(hvd.DistributedGradientTape))
    arrays = [np.ones(ELEMENTS, np.float32) for _ in range(TENSORS)]

    def engine() -> None:
        handles = [rueda.numpy.allreduce_async_(a, name=f"engine.{i}") for i, a in enumerate(arrays)]
        for handle in handles:
            rueda.numpy.synchronize(handle)

    return {"without": plain, "with": combined, "engine": engine}


def main() -> None:
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    hvd.init()
    times = in_turns(make_calls())
    if hvd.rank() == 0:
        cost = times["with"] - times["without"]
        print(f"a graph of {TENSORS} gradients: {times['without']:.0f} µs, combined {times['with']:.0f} µs")
        print(f"the engine alone: {times['engine']:.0f} µs, {times['engine'] / TENSORS:.2f} µs a tensor")
        print(f"a tensor: {cost / TENSORS:.2f} µs; over the engine's own time {(cost - times['engine']) / TENSORS:.2f} µs")


main()
