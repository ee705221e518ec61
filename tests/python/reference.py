"""What the operations mean, in NumPy, from the inputs of all ranks. Every rank can make everyone's inputs."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np
import rueda.torch as hvd
import torch
from adasum import adasum, orthogonality  # noqa: F401

Average, Sum, Adasum, Min, Max, Product = range(6)
INTEGERS = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [torch.bool, *INTEGERS, *FLOATS]
SHAPES: List[Tuple[int, ...]] = [(), (0,), (7,), (3, 5), (2, 0, 3), (1031,)]
LARGE = (300_001,)
_TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-6, torch.float64: 1e-14}


def make(shape: Sequence[int], dtype: torch.dtype, rank: int, seed: int = 0) -> torch.Tensor:
    """The input of a rank; small whole numbers, so that sums are exact in every type but for rounding of
    floating-point numbers between 0.5 and 2."""
    generator = np.random.default_rng([seed, rank, len(shape)])
    if dtype == torch.bool:
        return torch.from_numpy(generator.integers(0, 2, shape).astype(bool)).reshape(tuple(shape))
    if not dtype.is_floating_point:
        low = 0 if dtype in (torch.uint8, torch.uint16) else -9
        return torch.from_numpy(np.asarray(generator.integers(low, 9, shape))).to(dtype)
    values = generator.uniform(0.5, 2.0, shape) * generator.choice([-1.0, 1.0], shape)
    return torch.from_numpy(np.asarray(values)).to(dtype)


def make_all(shape: Sequence[int], dtype: torch.dtype, seed: int = 0, ranks: Any = None) -> List[torch.Tensor]:
    """The inputs of all ranks (or those given)."""
    return [make(shape, dtype, rank, seed) for rank in (range(hvd.size()) if ranks is None else ranks)]


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """As wide as it gets."""
    tensor = tensor.detach()
    if tensor.dtype.is_floating_point:
        return tensor.double().numpy()
    return tensor.numpy() if tensor.dtype == torch.bool else tensor.to(torch.int64).numpy()


def reduce(tensors: Sequence[torch.Tensor], op: int, pre: float = 1.0, post: float = 1.0) -> np.ndarray:
    """Allreduce. Integers are scaled in double and truncated toward zero."""
    dtype = tensors[0].dtype
    rows = np.stack([to_numpy(tensor) for tensor in tensors])
    if dtype == torch.bool:
        return {Sum: rows.any(0), Max: rows.any(0), Min: rows.all(0), Product: rows.all(0)}[op]
    if op == Adasum:
        return adasum(list(rows * pre)) * post
    rows = _scale(rows, pre, dtype)
    combine = {Average: np.sum, Sum: np.sum, Min: np.min, Max: np.max, Product: np.prod}[op]
    return _scale(combine(rows, axis=0), post / len(tensors) if op == Average else post, dtype)


def _scale(values: np.ndarray, factor: float, dtype: torch.dtype) -> np.ndarray:
    if factor == 1.0:
        return values
    return values * factor if dtype.is_floating_point else np.trunc(values * factor).astype(np.int64)


def check(got: torch.Tensor, wanted: np.ndarray, dtype: torch.dtype, what: Any = "", slack: float = 1.0) -> None:
    """The type, the shape and the values, equal up to the rounding of the type."""
    assert got.dtype == dtype, f"{what}: {got.dtype}, not {dtype}"
    assert tuple(got.shape) == np.shape(wanted), f"{what}: shape {tuple(got.shape)}, not {np.shape(wanted)}"
    if not dtype.is_floating_point:
        wrapped = to_numpy(torch.from_numpy(np.asarray(wanted)).to(dtype))  # integers overflow
        assert np.array_equal(to_numpy(got), wrapped), f"{what}:\n{to_numpy(got)}\nnot\n{wrapped}"
        return
    largest = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    np.testing.assert_allclose(
        to_numpy(got), wanted, rtol=0, atol=_TOLERANCE[dtype] * largest * slack, err_msg=str(what)
    )
