"""Gradients of the operations: finite differences, in double, of the loss that each operation's gradient is
defined for; and the operations inside torch.compile.

The loss of all ranks together is the sum over ranks of sum(w · f(y)) with weights and f that differ by rank.
allreduce and alltoall have the gradient of that sum; allgather and broadcast of its mean over the ranks;
reducescatter of the sum times the number of ranks.
"""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import pytest
import reference as ref
import rueda.torch as hvd
import torch
from ranks import on_ranks
from reference import Average, Max, Min, Product, Sum

STEP = 1e-5


def loss(result: Any, rank: int, library: Any) -> Any:
    """A number; not linear, and another one on every rank."""
    flat = result.reshape(-1)
    weights = np.arange(1, flat.shape[0] + 1) * (rank + 1.0) / 7
    if library is torch:
        weights = torch.from_numpy(weights)
    return (weights * library.sin(flat)).sum()


def differences(model: Callable[[List[np.ndarray]], List[np.ndarray]], inputs: List[np.ndarray], rank: int) -> np.ndarray:
    """d Σ loss / d inputs[rank] by finite differences of a model in NumPy of all ranks' results."""

    def total(values: List[np.ndarray]) -> float:
        return float(sum(loss(result, r, np) for r, result in enumerate(model(values))))

    slope = np.zeros_like(inputs[rank])
    for place in np.ndindex(slope.shape):
        sides = []
        for sign in (1, -1):
            moved = [values.copy() for values in inputs]
            moved[rank][place] += sign * STEP
            sides.append(total(moved))
        slope[place] = (sides[0] - sides[1]) / (2 * STEP)
    return slope


def check_gradient(call: Callable, model: Callable, inputs: List[np.ndarray], scale: float) -> None:
    rank = hvd.rank()
    leaf = torch.from_numpy(inputs[rank].copy()).requires_grad_()
    result = call(leaf)
    np.testing.assert_allclose(result.detach().numpy(), model(inputs)[rank], atol=1e-12)
    loss(result, rank, torch).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), scale * differences(model, inputs, rank), atol=1e-7)


def inputs_of(*shapes: Any) -> List[np.ndarray]:
    return [ref.make(shapes[r % len(shapes)], torch.float64, r).numpy() for r in range(hvd.size())]


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("op", [Average, Sum, Min, Max, Product])
@pytest.mark.parametrize("pre, post", [(1.0, 1.0), (0.3, 1.7), (-0.7, 2.0)])
def test_allreduce(op: int, pre: float, post: float) -> None:
    combine = {Average: np.mean, Sum: np.sum, Min: np.min, Max: np.max, Product: np.prod}[op]

    def model(rows: List[np.ndarray]) -> List[np.ndarray]:
        return [combine(np.stack(rows) * pre, axis=0) * post] * len(rows)

    arguments = {"op": op, "prescale_factor": pre, "postscale_factor": post}
    check_gradient(lambda x: hvd.allreduce(x, **arguments), model, inputs_of((3, 2)), 1.0)
    check_gradient(lambda x: hvd.grouped_allreduce([x], **arguments)[0], model, inputs_of((3, 2)), 1.0)
    check_gradient(lambda x: hvd.allreduce(x.t(), **arguments).t(), model, inputs_of((3, 2)), 1.0)


@on_ranks(2, 3)
def test_extremes_that_are_shared() -> None:
    same = torch.ones(4, requires_grad=True)
    hvd.allreduce(same, op=Max).sum().backward()
    torch.testing.assert_close(same.grad, torch.ones(4))  # size losses, size holders
    halves = torch.full((3,), 0.1, dtype=torch.float32, requires_grad=True)
    hvd.allreduce(halves, op=Min, prescale_factor=0.3, postscale_factor=0.7).sum().backward()
    torch.testing.assert_close(halves.grad, torch.full((3,), 0.21))
    zero = torch.full((2,), float(hvd.rank()), requires_grad=True)  # rank 0 has zeros
    hvd.allreduce(zero, op=Product).sum().backward()
    others = float(np.prod(np.arange(1, hvd.size()))) * hvd.size() if hvd.rank() == 0 else 0.0
    torch.testing.assert_close(zero.grad, torch.full((2,), others))


@on_ranks(1, 2, 3)
def test_grouped_allreduce_with_results_that_are_not_used() -> None:
    tensors = [torch.full((2,), float(i + 1), requires_grad=i != 1) for i in range(3)]
    first, _, last = hvd.grouped_allreduce(tensors, op=Sum)
    (first * 2).sum().backward()
    torch.testing.assert_close(tensors[0].grad, torch.full((2,), 2.0 * hvd.size()))
    assert tensors[1].grad is None
    assert tensors[2].grad is None or not tensors[2].grad.any()
    assert last.requires_grad


@on_ranks(1, 2, 3)
def test_allgather() -> None:
    def model(rows: List[np.ndarray]) -> List[np.ndarray]:
        return [np.concatenate(rows)] * len(rows)

    for inputs in (inputs_of((2, 3)), inputs_of((1, 2), (3, 2)), inputs_of((2,), (0,))):
        check_gradient(hvd.allgather, model, inputs, 1 / hvd.size())
        check_gradient(lambda x: hvd.grouped_allgather([x])[0], model, inputs, 1 / hvd.size())
    scalar = torch.tensor(float(hvd.rank()), requires_grad=True)
    hvd.allgather(scalar).sum().backward()
    torch.testing.assert_close(scalar.grad, torch.tensor(1.0))


@on_ranks(1, 2, 3)
def test_broadcast() -> None:
    for root in range(hvd.size()):
        check_gradient(
            lambda x: hvd.broadcast(x, root), lambda rows: [rows[root]] * len(rows), inputs_of((2, 3)), 1 / hvd.size()
        )


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("op", [Average, Sum])
def test_reducescatter(op: int) -> None:
    def model(rows: List[np.ndarray]) -> List[np.ndarray]:
        combined = np.stack(rows).mean(0) if op == Average else np.stack(rows).sum(0)
        return np.array_split(combined * 0.5 * 3.0, len(rows))

    arguments = {"op": op, "prescale_factor": 0.5, "postscale_factor": 3.0}
    for inputs in (inputs_of((4, 2)), inputs_of((5,))):
        check_gradient(lambda x: hvd.reducescatter(x, **arguments), model, inputs, hvd.size())
        check_gradient(lambda x: hvd.grouped_reducescatter([x], **arguments)[0], model, inputs, hvd.size())


@on_ranks(1, 2, 3)
def test_alltoall() -> None:
    size = hvd.size()
    splits = [[(r + to) % 3 for to in range(size)] for r in range(size)]

    def model(rows: List[np.ndarray]) -> List[np.ndarray]:
        parts = [np.split(row, np.cumsum(splits[r])[:-1]) for r, row in enumerate(rows)]
        return [np.concatenate([parts[r][to] for r in range(size)]) for to in range(size)]

    inputs = [ref.make((sum(splits[r]), 2), torch.float64, r).numpy() for r in range(size)]
    check_gradient(lambda x: hvd.alltoall(x, splits[hvd.rank()])[0], model, inputs, 1.0)
    splits = [[2] * size] * size
    check_gradient(hvd.alltoall, model, inputs_of((2 * size, 2)), 1.0)


@on_ranks(2)
def test_process_set_and_compression() -> None:
    alone = hvd.add_process_set([hvd.size() - 1])
    leaf = torch.ones(3, requires_grad=True)
    if alone.included():
        hvd.allreduce(leaf, op=Sum, process_set=alone).sum().backward()
        hvd.allgather(leaf, process_set=alone).sum().backward()
        hvd.broadcast(leaf, alone.ranks[0], process_set=alone).sum().backward()
        hvd.reducescatter(leaf, process_set=alone).sum().backward()
        torch.testing.assert_close(leaf.grad, torch.full((3,), 4.0))
    hvd.remove_process_set(alone)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        leaf = torch.full((3,), 2.0, requires_grad=True)
        hvd.allreduce(leaf, compression=compression, op=Sum).sum().backward()
        torch.testing.assert_close(leaf.grad, torch.full((3,), 2.0))
        assert leaf.grad.dtype == torch.float32


# ---- torch.compile ----------------------------------------------------------------------------------


def every_operation(x: torch.Tensor, members: hvd.ProcessSet, last: int, splits: List[int]) -> torch.Tensor:
    total = hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, process_set=members)
    rows = hvd.allgather(torch.sin(total), process_set=members)
    root = hvd.broadcast(x * 2, last, process_set=members)
    share = hvd.reducescatter(x.exp(), op=Average, process_set=members)
    even = hvd.alltoall(x * 5, process_set=members)
    uneven, received = hvd.alltoall(x, splits, process_set=members)
    first, second = hvd.grouped_allreduce([x, x * x], process_set=members)
    largest = hvd.allreduce(x, op=hvd.Max, process_set=members)
    gathered = hvd.grouped_allgather([x.cos(), x], process_set=members)
    shares = hvd.grouped_reducescatter([x.tan()], process_set=members)
    parts = [rows, root.cos(), share, even**2, uneven**3, first * second, largest**2, *gathered, *shares]
    return sum(part.sum() for part in parts) * hvd.size() + received.sum()


@on_ranks(1, 2, 3, timeout=300)
def test_every_operation_in_one_compiled_graph() -> None:
    torch._dynamo.reset()
    size = hvd.size()
    rest = {"last": size - 1, "splits": [3] * (size - 1) + [2 * size - 3 * (size - 1)]}
    compiled = torch.compile(every_operation, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        pairs = []
        for function in (every_operation, compiled):
            leaf = ref.make((2 * size, 3), torch.float64, hvd.rank(), seed).requires_grad_()
            result = function(leaf, hvd.global_process_set, **rest)
            result.backward()
            pairs.append((result.detach(), leaf.grad))
        torch.testing.assert_close(pairs[0], pairs[1])


@on_ranks(2, timeout=400, env={"TORCHINDUCTOR_COMPILE_THREADS": "1"})
def test_compiled_by_inductor() -> None:
    torch._dynamo.reset()

    @torch.compile(fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        return hvd.allreduce(x + 1, name="compiled.mean") * 2 + hvd.broadcast(x * x, 0, name="compiled.root")

    for _ in range(3):
        x = torch.full((3,), float(hvd.rank()), requires_grad=True)
        result = step(x)
        torch.testing.assert_close(result, torch.full((3,), 3.0))
        result.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 2.0))
