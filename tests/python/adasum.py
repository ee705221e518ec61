"""Adasum in NumPy, by its definition."""

from __future__ import annotations

from typing import Sequence, Tuple

import numpy as np

Block = Tuple[np.ndarray, int]  # a vector, and how many of the ranks below it have something


def _kept(product: float, norm: float, leaves: int, others: int) -> float:
    return 1.0 - leaves / (leaves + others) * product / norm if norm != 0 and leaves else 1.0


def _join(a: Block, b: Block) -> Block:
    (x, n), (y, m) = a, b
    product, xx, yy = float(np.sum(x * y)), float(np.sum(x * x)), float(np.sum(y * y))
    return _kept(product, xx, n, m) * x + _kept(product, yy, m, n) * y, n + m


def adasum(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """The binary tree: level k pairs blocks of 2^k ranks; who has no partner goes up as it is. Each block
    has the weight of the ranks in it."""
    rows = [np.asarray(vector, dtype=np.float64) for vector in vectors]
    blocks = [(row, int(np.sum(row * row) != 0)) for row in rows]
    while len(blocks) > 1:
        pairs = [_join(a, b) for a, b in zip(blocks[::2], blocks[1::2])]
        blocks = pairs + ([blocks[-1]] if len(blocks) % 2 else [])
    return blocks[0][0]


def orthogonality(vectors: Sequence[np.ndarray]) -> float:
    """‖combined‖² / Σ‖gᵢ‖²."""
    return float(np.sum(adasum(vectors) ** 2) / sum(np.sum(np.asarray(v, dtype=np.float64) ** 2) for v in vectors))
