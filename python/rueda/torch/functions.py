"""Start values, states, objects and numbers that all ranks should share."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import torch

from . import _ops
from .. import _native
from .._calls import full_name
from .._objects import allgather_object, broadcast_object, broadcast_object_fn
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Average

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "metric_average",
    "orthogonality",
]


def broadcast_parameters(
    params: Union[Mapping[str, Any], Iterable[Tuple[str, Any]]],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives every rank the values of ``root_rank``, in place: ``model.state_dict()`` or
    ``model.named_parameters()``. Blocks until all are there. Entries that are no tensors are left."""
    handles = []
    for name, value in _named_values(params):
        if value is None or not isinstance(value, torch.Tensor):
            continue
        if torch.nn.parameter.is_lazy(value):
            raise ValueError(f"parameter {name} has no shape yet: run the model once before broadcasting")
        target = value.data if isinstance(value, torch.nn.Parameter) else value
        if target.is_complex():
            target = torch.view_as_real(target)
        handles.append(_ops.broadcast_async_(target, root_rank, f"parameter.{name}", process_set))
    for handle in handles:
        handle.wait()


def _named_values(params: Any) -> List[Tuple[str, Any]]:
    if isinstance(params, Mapping):
        return sorted(params.items())
    try:
        rows = [row if isinstance(row, tuple) else (None, row) for row in params]
    except TypeError:
        raise ValueError(f"broadcast_parameters: {type(params).__name__} is neither a dict nor a list") from None
    return [(str(i) if name is None else name, value) for i, (name, value) in enumerate(rows)]


# ---- The state of an optimizer ----------------------------------------------------------------------


class _Placeholder:
    """Where a tensor stands in what the root describes of its state."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def _describe(value: Any, tensors: List[torch.Tensor]) -> Any:
    """The value with its tensors taken out, in order."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Placeholder(value)
    if isinstance(value, dict):
        return {key: _describe(each, tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_describe(each, tensors) for each in value)
    return value


def _rebuild(value: Any, device: torch.device, old: Any, tensors: List[torch.Tensor]) -> Any:
    """The value with tensors put in, in the same order; an old tensor that fits is used again."""
    if isinstance(value, _Placeholder):
        fits = isinstance(old, torch.Tensor) and tuple(old.shape) == value.shape and old.dtype == value.dtype
        tensor = old if fits else torch.zeros(value.shape, dtype=value.dtype, device=device)
        tensors.append(tensor)
        return tensor
    if isinstance(value, dict):
        olds = old if isinstance(old, dict) else {}
        return {key: _rebuild(each, device, olds.get(key), tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_rebuild(each, device, None, tensors) for each in value)
    return value


def _parameters(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives every rank the optimizer state of ``root_rank``: what it remembers of each parameter and its
    settings (learning rate, momentum, …). Any optimizer but LBFGS (``ValueError``), whose state is not
    kept by parameter. Before the first step there is no state, and the settings alone are copied; parameters
    that will have a gradient get zeros for one. ``model`` is there for Horovod's sake."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the state of torch.optim.LBFGS cannot be broadcast")
    tensors: List[torch.Tensor] = []
    parameters = _parameters(optimizer)
    is_root = process_set.ranks[process_set.rank()] == root_rank
    description = None
    if is_root:
        settings = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        state = {i: optimizer.state[p] for i, p in enumerate(parameters) if p in optimizer.state}
        description = _describe({"settings": settings, "state": state}, tensors)
    description = broadcast_object(description, root_rank, "optimizer.description", process_set)
    if not is_root:
        tensors = []
        _adopt(optimizer, parameters, description, tensors)
    handles = [
        _ops.broadcast_async_(
            torch.view_as_real(tensor) if tensor.is_complex() else tensor, root_rank, f"optimizer.{i}", process_set
        )
        for i, tensor in enumerate(tensors)
    ]
    for handle in handles:
        handle.wait()
    if not description["state"]:
        _fill_in_gradients(optimizer, parameters)


def _fill_in_gradients(optimizer: torch.optim.Optimizer, parameters: List[torch.Tensor]) -> None:
    """Horovod makes a first step here, with zeros, and scripts look at these gradients. A step would move
    parameters (weight decay) and count, so there is none."""
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            zeros = torch.zeros_like(parameter)
            parameter.grad = zeros.to_sparse() if isinstance(optimizer, torch.optim.SparseAdam) else zeros


def _adopt(
    optimizer: torch.optim.Optimizer,
    parameters: List[torch.Tensor],
    description: Dict[str, Any],
    tensors: List[torch.Tensor],
) -> None:
    """Shapes this rank's state like the root's; tensors still to be filled go to ``tensors``."""
    if len(description["settings"]) != len(optimizer.param_groups):
        raise ValueError(
            f"this rank's optimizer has {len(optimizer.param_groups)} parameter groups, "
            f"the root's {len(description['settings'])}"
        )
    for group, settings in zip(optimizer.param_groups, description["settings"]):
        device = group["params"][0].device if group["params"] else torch.device("cpu")
        group.update(_rebuild(settings, device, group, tensors))
    for index, state in description["state"].items():
        parameter = parameters[index]
        old = optimizer.state.get(parameter)
        optimizer.state[parameter] = _rebuild(state, parameter.device, old, tensors)


# ---- Numbers ----------------------------------------------------------------------------------------


def metric_average(
    value: Union[float, torch.Tensor],
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> float:
    """The mean of a number over all ranks, as a Python float.

    >>> import rueda.torch as hvd
    >>> hvd.init()
    >>> hvd.metric_average(0.5, "accuracy")
    0.5
    """
    number = torch.tensor(float(value), dtype=torch.float64)
    handle = _ops.allreduce_async_(
        number, name=None if name is None else f"metric.{name}", op=Average, process_set=process_set
    )
    return handle.wait().item()


def orthogonality(of: Any = None) -> Any:
    """How much the ranks' updates differed in the last Adasum: 1 when they were orthogonal (every worker
    adds something of its own), 1/size when they were equal (one worker would have done); opposed ones give
    less.

    ``of``: None for all together; the name of a parameter; or a ``DistributedOptimizer``, which gives a
    dict by parameter. NaN before the first Adasum.
    """
    if hasattr(of, "param_groups"):
        return of.orthogonality()
    return _native.orthogonality(None if of is None else full_name("allreduce", of))
