"""Adasum in NumPy, by its definition."""

from __future__ import annotations

from typing import Sequence

import numpy as np


def adasum_pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    product = float(np.sum(a * b))
    norms = float(np.sum(a * a)), float(np.sum(b * b))
    first, second = (1.0 - product / (2.0 * norm) if norm > 0 else 1.0 for norm in norms)
    return first * a + second * b


def adasum(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """The binary tree: level k pairs blocks of 2^k ranks; who has no partner goes up as it is."""
    rows = [np.asarray(vector, dtype=np.float64) for vector in vectors]
    while len(rows) > 1:
        pairs = [adasum_pair(a, b) for a, b in zip(rows[::2], rows[1::2])]
        rows = pairs + ([rows[-1]] if len(rows) % 2 else [])
    return rows[0]


def orthogonality(vectors: Sequence[np.ndarray]) -> float:
    """‖combined‖² / Σ‖gᵢ‖²."""
    return float(np.sum(adasum(vectors) ** 2) / sum(np.sum(np.asarray(v, dtype=np.float64) ** 2) for v in vectors))
