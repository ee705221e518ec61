"""Training on ranks, and the same training in one process on the joined batch."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import rueda.torch as hvd
import torch
from torch import optim

ROWS = 6  # of a rank's batch
Batch = Tuple[torch.Tensor, torch.Tensor]


def make_model(seed: int = 1) -> torch.nn.Module:
    """Small, in double, the same on all ranks."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4), torch.nn.PReLU(), torch.nn.Linear(4, 3)
    ).double()
    return model


def batches(steps: int, ranks: Optional[int] = None) -> List[List[Batch]]:
    """For every step, the batch of every rank."""
    generator = torch.Generator().manual_seed(7)
    count = hvd.size() if ranks is None else ranks

    def one() -> Batch:
        return (
            torch.randn(ROWS, 5, generator=generator, dtype=torch.float64),
            torch.randn(ROWS, 3, generator=generator, dtype=torch.float64),
        )

    return [[one() for _ in range(count)] for _ in range(steps)]


def joined(parts: List[Batch]) -> Batch:
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


def loss_of(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def train(
    model: torch.nn.Module,
    optimizer: Any,
    data: List[Batch],
    before_step: Optional[Callable[[torch.nn.Module], Any]] = None,
    set_to_none: bool = True,
) -> None:
    for batch in data:
        optimizer.zero_grad(set_to_none=set_to_none)
        loss_of(model, batch).backward()
        if before_step is not None:
            before_step(model)
        optimizer.step()


def values(model: torch.nn.Module) -> List[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def assert_same(model: torch.nn.Module, reference: torch.nn.Module, tolerance: float = 1e-10) -> None:
    """The parameters of two models are equal up to rounding, and equal on all ranks."""
    for (name, got), wanted in zip(model.named_parameters(), reference.parameters()):
        torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")
    assert_alike(model)


def assert_alike(model: torch.nn.Module, process_set: Any = hvd.global_process_set) -> None:
    """Every rank has the same bits."""
    flat = torch.cat([torch.view_as_real(p).reshape(-1) if p.is_complex() else p.detach().reshape(-1).double()
                      for p in (q.detach() for q in model.parameters())])
    for row in hvd.allgather(flat.unsqueeze(0), process_set=process_set):
        assert torch.equal(row, flat), "the ranks' parameters differ"


def compare(
    make_optimizer: Callable[[Any], torch.optim.Optimizer],
    steps: int = 4,
    before_step: Optional[Callable[[torch.nn.Module], Any]] = None,
    set_to_none: bool = True,
    tolerance: float = 1e-10,
    **wrap: Any,
) -> Any:
    """Trains both ways and compares; returns the wrapped optimizer."""
    data = batches(steps)
    reference = make_model()
    train(reference, make_optimizer(reference.parameters()), [joined(parts) for parts in data], before_step, set_to_none)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(make_optimizer(model.parameters()), model.named_parameters(), **wrap)
    train(model, optimizer, [parts[hvd.rank()] for parts in data], before_step, set_to_none)
    assert_same(model, reference, tolerance)
    return optimizer


OPTIMIZERS: Dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
    "radam": lambda p: optim.RAdam(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p, lr=1.0),
    "adafactor": lambda p: optim.Adafactor(p, lr=0.01),
    "asgd": lambda p: optim.ASGD(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
}


def sgd(parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.1, momentum=0.9)


def shard(data: List[Any]) -> List[Any]:
    return [parts[hvd.rank()] for parts in data]


class Doubling:
    """A compressor that the package does not know."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Any:
        return (tensor * 2).float(), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor.to(context) / 2
