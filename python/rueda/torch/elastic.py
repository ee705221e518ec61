"""Training that goes on after a failure, for PyTorch.

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0)

    @hvd.elastic.run
    def train(state):
        while state.epoch < epochs:
            …
            state.epoch += 1
            state.commit()

    train(state)

What can be survived today is told in ``rueda._elastic``.
"""

from __future__ import annotations

import copy
import random
from typing import Any, Callable, Dict, Iterator, List, Sized, Tuple, Type

import torch

from .._basics import rank, size
from .._elastic import ObjectState, run_fn
from .functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "ElasticSampler",
    "LRSchedulerStateHandler",
    "ModelStateHandler",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "run",
    "set_handler_registry",
]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates the function that trains; its first argument is the :class:`TorchState`. It is called again
    after a failure, from the last commit."""
    return run_fn(func)


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Every rank its share of a data set, in an order that all ranks know. What :meth:`record_batch` has
    counted is not given again in this epoch, also when the number of ranks has changed since."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """A new epoch, in which nothing is processed; call it at the end of an epoch."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """All ranks have processed a batch of this size; counts from the next iteration or load on."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, int]:
        """Which epoch, and how much of it is done."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, int]) -> None:
        """Goes on where ``state_dict`` was taken, with the ranks of now."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares what is left among the ranks of now."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        # the first ones again where the last round would be short: all ranks have as many batches
        padded = [left[i % len(left)] for i in range(self.total_size)]
        return iter(padded[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples


class StateHandler:
    """How one kind of object is kept. ``value`` is the object; a subclass saves, restores and syncs it."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Remembers how the object is now."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Makes it as it was at the last save."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Makes it as it is on rank 0."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0))

    def set_value(self, value: Any) -> None:
        """Another object takes its place."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Keeps a ``torch.nn.Module``."""

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(StateHandler):
    """Keeps an optimizer, wrapped or not."""

    def restore(self) -> None:
        super().restore()
        for group in self.value.param_groups:
            for parameter in group["params"]:
                parameter.grad = None  # of a pass that failed

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class LRSchedulerStateHandler(StateHandler):
    """Keeps a learning-rate scheduler."""


class SamplerStateHandler(StateHandler):
    """Keeps an :class:`ElasticSampler`."""


Registry = List[Tuple[Type[Any], Callable[[Any], StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, LRSchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Which class is kept by which handler; the first that fits is taken. Append your own."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """Replaces the list; states that exist keep their handlers."""
    _registry[:] = registry


class TorchState(ObjectState):
    """A model, an optimizer and whatever else, as attributes. What has a handler (see
    :func:`get_handler_registry`) is kept by it, the rest is pickled."""

    _handlers: Dict[str, StateHandler]

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        object.__setattr__(self, "_handlers", {})
        plain = {}
        for name, value in {"model": model, "optimizer": optimizer, **kwargs}.items():
            handler = next((make(value) for kind, make in _registry if isinstance(value, kind)), None)
            if handler is None:
                plain[name] = value
            else:
                self._handlers[name] = handler
                object.__setattr__(self, name, value)
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **plain)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers and self._handlers[name].value is not value:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
            handler.save()
        super().sync()
