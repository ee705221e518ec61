"""Gradients of several passes, added up before they are used, for optimizers that cannot do it themselves."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Tuple

import tensorflow as tf

Pairs = List[Tuple[Any, Any]]  # of gradients and their variables


class Sums(NamedTuple):
    """Variables that hold what was added up, and the number of passes."""

    totals: List[Any]
    counter: Any


def dense_pairs(grads_and_vars: Any) -> Pairs:
    """Those that have a gradient, which is made dense."""
    return [(tf.convert_to_tensor(g), v) for g, v in grads_and_vars if g is not None]


def accumulate(pairs: Pairs, sums: Sums, passes: int, average: bool, step: Callable[[Pairs], Any]) -> Any:
    """Adds the gradients to the sums; in every so manieth call ``step`` gets the sums (or the means), which then
    begin at zero. The number of passes since the last step."""
    added = [total.assign_add(g) for total, (g, _) in zip(sums.totals, pairs)]
    with tf.control_dependencies(added):
        count = sums.counter.assign_add(1)

    def due() -> Any:
        factor = 1.0 / passes if average else 1.0
        done = step([(total.read_value() * factor, v) for total, (_, v) in zip(sums.totals, pairs)])
        with tf.control_dependencies([done] if done is not None else []):
            cleared = [total.assign(tf.zeros_like(total)) for total in sums.totals]
        with tf.control_dependencies(cleared):
            return tf.identity(sums.counter.assign(0))

    with tf.control_dependencies([count]):
        return tf.cond(tf.equal(count, passes), due, lambda: tf.identity(count))
