"""The learning rate over time, and the order of data."""

from __future__ import annotations

import numpy

WARM_UP = 0.2  # of the steps


def rate(step: int, steps: int) -> float:
    """The part of the largest learning rate for a step: it rises linearly over the first fifth of the
    steps, then falls linearly to zero."""
    peak = max(1, int(WARM_UP * steps))
    return min((step + 1) / peak, (steps - step) / max(1, steps - peak), 1.0)


def shuffle(count: int, seed: int) -> numpy.ndarray:
    """The numbers below ``count`` in an order that is the same on all ranks."""
    return numpy.random.default_rng(seed).permutation(count)
