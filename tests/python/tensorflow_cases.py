"""What tests of rueda.tensorflow share: the ways to run a function, everyone's inputs, and what is right."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np
import pytest
from adasum import adasum

tf = pytest.importorskip("tensorflow")
import rueda.tensorflow as hvd  # noqa: E402

#: A job of its own, without other frameworks; two threads for operations, which is where crosswise waits hang.
ENV = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTEROP_THREADS": "2", "RANKS_OF": "tensorflow"}
MODES = ["eager", "function", "v1"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "int32", "int64", *FLOATS]
_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-6, "float64": 1e-14}


def make_all(shape: Sequence[int], dtype: str, seed: int = 0) -> List[np.ndarray]:
    """Every rank's input, known to all: whole numbers, or floating-point ones between 0.5 and 2."""
    inputs = []
    for rank in range(hvd.size()):
        rng = np.random.default_rng([seed, rank, len(shape)])
        values = rng.uniform(0.5, 2.0, shape) if dtype in FLOATS else rng.integers(0, 2 if dtype == "bool" else 5, shape)
        inputs.append(np.asarray(values).astype(tf.as_dtype(dtype).as_numpy_dtype))
    return inputs


def call(mode: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's results as NumPy, by one of TensorFlow's three ways to run it."""
    if mode == "v1":
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            return session.run(function(*[tf.constant(each) for each in arguments]))
    runner = tf.function(function) if mode == "function" else function
    return tf.nest.map_structure(lambda t: t.numpy(), runner(*[tf.constant(each) for each in arguments]))


def combined(inputs: Sequence[np.ndarray], op: int, pre: float = 1.0, post: float = 1.0) -> np.ndarray:
    """Allreduce in double; integers are scaled and divided in double and truncated toward zero."""
    dtype = inputs[0].dtype
    rows = np.stack([each.astype(np.float64) for each in inputs])
    if dtype == bool:
        return rows.any(0) if op in (hvd.Sum, hvd.Max) else rows.all(0)
    whole = np.issubdtype(dtype, np.integer)
    rows = np.trunc(rows * pre) if whole else rows * pre
    if op == hvd.Adasum:
        result = adasum([row.ravel() for row in rows]).reshape(rows[0].shape)
    else:
        kinds = {hvd.Average: np.mean, hvd.Sum: np.sum, hvd.Min: np.min, hvd.Max: np.max, hvd.Product: np.prod}
        result = kinds[op](rows, axis=0)
    return np.trunc(np.trunc(result) * post) if whole else result * post


def check(got: Any, wanted: Any, dtype: str, what: Any = "", slack: float = 1.0) -> None:
    """Type, shape, and values up to the type's rounding."""
    got, wanted = np.asarray(got), np.asarray(wanted, np.float64)
    assert got.dtype == tf.as_dtype(dtype).as_numpy_dtype, (what, got.dtype)
    assert got.shape == wanted.shape, (what, got.shape, wanted.shape)
    largest = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    tolerance = _TOLERANCE.get(dtype, 0.0) * largest * slack
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=0, atol=tolerance, err_msg=str(what))


def split_rows(rows: int) -> List[int]:
    """Where the shares of reducescatter end, but for the last: the first ranks have one row more."""
    size = hvd.size()
    counts = [rows // size + (rank < rows % size) for rank in range(size)]
    return [int(end) for end in np.cumsum(counts)[:-1]]
