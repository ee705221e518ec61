"""Second derivatives, and backward passes more than once: against the same calculation in one process, in which
all ranks' tensors are leaves of one graph.

An operation's gradient is a factor times that of the loss of all ranks together (see test_torch_gradients.py), and
so is the gradient of the operations that its backward pass is made of: second derivatives have both factors.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import pytest
import reference as ref
import rueda.torch as hvd
import torch
from ranks import on_ranks
from reference import Average, Max, Min, Product, Sum

Rows = List[torch.Tensor]


def loss(result: torch.Tensor, rank: int) -> torch.Tensor:
    """Not linear, and another one on every rank."""
    flat = result.reshape(-1)
    return (torch.arange(1, len(flat) + 1) * (rank + 1.0) / 7 * torch.sin(flat)).sum()


def leaves(shape: Tuple[int, ...]) -> Rows:
    return [ref.make(shape, torch.float64, rank).requires_grad_() for rank in range(hvd.size())]


def second_derivative(model: Callable[[Rows], Rows], inputs: Rows) -> torch.Tensor:
    """Of the first one's inner product with the inputs' cosines, with respect to this rank's input."""
    total = sum(loss(result, rank) for rank, result in enumerate(model(inputs)))
    first = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True, materialize_grads=True)
    product = sum((g * torch.cos(x.detach())).sum() for g, x in zip(first, inputs))
    return torch.autograd.grad(product, inputs[hvd.rank()], allow_unused=True, materialize_grads=True)[0]


def check(call: Callable[[torch.Tensor], Any], model: Callable[[Rows], Rows], shape: Tuple[int, ...], factor: float) -> None:
    wanted = second_derivative(model, leaves(shape))
    own = leaves(shape)[hvd.rank()]
    (first,) = torch.autograd.grad(loss(call(own), hvd.rank()), own, create_graph=True)
    (got,) = torch.autograd.grad((first * torch.cos(own.detach())).sum(), own)
    torch.testing.assert_close(got, factor * wanted)


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("op", [Average, Sum, Min, Max, Product])
@pytest.mark.parametrize("pre, post", [(1.0, 1.0), (-0.7, 2.0)])
def test_allreduce(op: int, pre: float, post: float) -> None:
    combine: Dict[int, Callable[[torch.Tensor], torch.Tensor]] = {
        Average: lambda rows: rows.mean(0),
        Sum: lambda rows: rows.sum(0),
        Min: lambda rows: rows.amin(0),
        Max: lambda rows: rows.amax(0),
        Product: lambda rows: rows.prod(0),
    }

    def model(rows: Rows) -> Rows:
        return [combine[op](torch.stack(rows) * pre) * post] * len(rows)

    words = {"op": op, "prescale_factor": pre, "postscale_factor": post}
    check(lambda x: hvd.allreduce(x, **words), model, (3, 2), 1.0)
    check(lambda x: hvd.grouped_allreduce([x, 2 * x], **words)[0], model, (3, 2), 1.0)


@on_ranks(1, 2, 3)
def test_the_others() -> None:
    size = hvd.size()
    check(hvd.allgather, lambda rows: [torch.cat(rows)] * size, (2, 3), 1 / size**2)
    for root in range(size):
        check(lambda x: hvd.broadcast(x, root), lambda rows: [rows[root]] * size, (4,), 1 / size**2)
    parts = [[2 if to == 0 else 1 for to in range(size)]] * size

    def exchange(rows: Rows) -> Rows:
        cut = [torch.split(row, parts[0]) for row in rows]
        return [torch.cat([cut[r][to] for r in range(size)]) for to in range(size)]

    check(lambda x: hvd.alltoall(x, parts[0])[0], exchange, (size + 1, 2), 1.0)
    for op in (Average, Sum):

        def scatter(rows: Rows) -> Rows:
            whole = torch.stack(rows)
            return list(torch.tensor_split(whole.mean(0) if op == Average else whole.sum(0), size))

        check(lambda x: hvd.reducescatter(x, op=op), scatter, (5, 2), size)  # its gradient has size, an allgather's 1 / size


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("op", [Average, Sum])
def test_two_sums_of_one_allreduce(op: int) -> None:
    """Two losses of one result, each with its own backward pass, and nobody asked to keep the graph."""
    factor = 1.0 if op == Average else hvd.size()
    leaf = torch.ones(3, requires_grad=True)
    result = hvd.allreduce(leaf, op=op)
    (2 * result).sum().backward()
    (3 * result).sum().backward()
    torch.testing.assert_close(leaf.grad, torch.full((3,), 5.0 * factor))


@on_ranks(1, 2, 3)
@pytest.mark.parametrize("op", [Average, Sum, Max, Product])
def test_each_result_of_a_group(op: int) -> None:
    factor = 1.0 if op in (Average, Max) else hvd.size()
    tensors = [torch.ones(2, requires_grad=True) for _ in range(3)]
    for weight, result in enumerate(hvd.grouped_allreduce(tensors, op=op), start=2):
        (weight * result).sum().backward()
    for weight, tensor in enumerate(tensors, start=2):
        torch.testing.assert_close(tensor.grad, torch.full((2,), float(weight * factor)))


@on_ranks(2)
def test_the_graph_of_an_extreme_is_kept_when_asked_for() -> None:
    leaf = torch.ones(3, requires_grad=True)
    result = hvd.allreduce(leaf, op=Max)
    result.sum().backward(retain_graph=True)
    result.sum().backward()
    torch.testing.assert_close(leaf.grad, torch.full((3,), 2.0))
