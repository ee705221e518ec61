"""``DistributedOptimizer``: the user's optimizer, with gradients (or, for Adasum, updates) combined over
all ranks."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar, Union, cast

import torch

from ._adasum import AdasumMixin
from ._reducer import GradientReducer, Reduction
from ._wrapper import WrapperMixin
from .._basics import size
from .._process_sets import ProcessSet, global_process_set
from .._reduce_op import Adasum, Average, Sum
from .compression import Compression, Compressor

Optimizer = TypeVar("Optimizer", bound=torch.optim.Optimizer)
Named = Optional[Iterable[Tuple[str, torch.Tensor]]]
Groups = Optional[Union[int, Sequence[Sequence[torch.Tensor]]]]


class AveragingMixin(WrapperMixin):
    """What a DistributedOptimizer with Average or Sum adds to the user's optimizer class."""

    _rueda: Any
    _rueda_end: Any  # takes the hooks away

    def _set_up(self, names: Dict[torch.Tensor, str], reduction: Reduction, groups: Groups) -> None:
        self._rueda_names, self._rueda_reduction = names, reduction
        self._rueda_groups = groups
        self._rueda_skips = False
        self._rueda: Optional[GradientReducer] = None
        self._attach()

    def _attach(self) -> None:
        """Listens to all parameters that have gradients now."""
        if self._rueda is not None:
            self._rueda_end()
            self._rueda = None
        members = self._rueda_reduction.process_set
        if not members.included() or members.size() == 1:
            return
        parameters = [p for p in _parameters(self) if p.requires_grad]
        names = [self._rueda_names[p] for p in parameters]
        groups = _number_groups(self._rueda_groups, parameters)
        self._rueda = GradientReducer(names, parameters, self._rueda_reduction, groups, self.backward_passes_per_step)
        # the parameters hold the hooks: an optimizer that is gone must not communicate any more
        self._rueda_end = weakref.finalize(self, self._rueda.close)
        self._rueda_end.atexit = False

    # ---- What Horovod's has beside the optimizer's own methods

    def synchronize(self) -> None:
        """Blocks until all gradients are combined. ``backward()`` has done it already; calling it again
        is free."""
        if self._rueda is not None and not (self._rueda.completed and not self._rueda.open):
            self._rueda.finish()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it, ``step()`` takes the gradients as they are."""
        self._rueda_skips = True
        try:
            yield
        finally:
            self._rueda_skips = False

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward passes accumulate gradients and do not communicate."""
        if self._rueda is None:
            yield
            return
        before, self._rueda.enabled = self._rueda.enabled, False
        try:
            yield
        finally:
            self._rueda.enabled = before

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes accumulate before gradients are combined."""
        _check_passes(passes)
        self.backward_passes_per_step = passes
        if self._rueda is not None:
            self._rueda.passes = passes
            self._rueda.restart()

    # ---- The optimizer's own methods

    def step(self, closure: Any = None) -> Any:
        """The optimizer's step on combined gradients. Without a backward pass that has combined them, it
        does it first."""
        self._tell_schedulers()
        if closure is None and not self._rueda_skips:
            self._take_in_new_parameters()
            self.synchronize()
        result = super().step() if closure is None else super().step(closure)  # type: ignore[misc]
        if self._rueda is not None:
            self._rueda.restart()
        return result

    step.hooked = True  # type: ignore[attr-defined]  # the base's step runs the hooks of steps

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients. After a backward pass that failed on this rank it first completes the
        communication, with zeros for what is missing, so that the other ranks go on."""
        if self._rueda is not None:
            if self._rueda.open and not self._rueda.stale:
                self._rueda.finish()
            self._rueda.restart()
        super().zero_grad(set_to_none=set_to_none)  # type: ignore[misc]

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Takes in more parameters; on all ranks alike."""
        super().add_param_group(param_group)  # type: ignore[misc]
        if "_rueda" in self.__dict__:
            _name_the_rest(self._rueda_names, self)
            self._attach()

    def _take_in_new_parameters(self) -> None:
        """Parameters that were frozen when the optimizer was wrapped, and are no longer."""
        old = self._rueda
        if old is None:
            return
        if all(id(p) in old.known for p in _parameters(self) if p.requires_grad):
            return
        self._attach()
        if old.completed and self._rueda_reduction.op == Sum:
            # the others will be combined again: averages stay what they are, sums would grow
            for parameter in old.parameters:
                if parameter.grad is not None:
                    parameter.grad.div_(old.linear_factor())


def _parameters(optimizer: Any) -> List[torch.Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _check_passes(passes: int) -> None:
    if passes < 1:
        raise ValueError(f"backward_passes_per_step is {passes}; it must be at least 1")


def _name_the_rest(names: Dict[torch.Tensor, str], optimizer: Any) -> None:
    for i, group in enumerate(optimizer.param_groups):
        for j, parameter in enumerate(group["params"]):
            names.setdefault(parameter, f"noname.{i}.{j}")


def _collect_names(optimizer: torch.optim.Optimizer, named: Named) -> Dict[torch.Tensor, str]:
    """A name for every parameter, or a ``ValueError`` that says what is wrong with those given."""
    names: Dict[torch.Tensor, str] = {}
    if named is None:
        _name_the_rest(names, optimizer)
        return names
    rows = list(named)
    if any(not isinstance(row, tuple) for row in rows):
        raise ValueError("named_parameters must be tuples (name, parameter), as model.named_parameters() gives them")
    seen = [name for name, _ in rows]
    twice = sorted({name for name in seen if seen.count(name) > 1})
    if twice:
        raise ValueError(f"names in named_parameters must be unique; there twice: {', '.join(twice)}")
    names = {parameter: name for name, parameter in rows}
    unnamed = [p for p in _parameters(optimizer) if p not in names]
    if unnamed:
        shapes = ", ".join(str(tuple(p.shape)) for p in unnamed[:5])
        raise ValueError(
            f"named_parameters leaves out {len(unnamed)} parameters of the optimizer, of shapes {shapes}: "
            "give the names of all, or none"
        )
    return names


def _number_groups(groups: Groups, parameters: List[torch.Tensor]) -> List[List[int]]:
    """Groups as indices into the parameters."""
    if not groups:
        return []
    if isinstance(groups, int):
        whole, rest = divmod(len(parameters), groups)
        sizes = [whole + (i < rest) for i in range(groups)]
        starts = [sum(sizes[:i]) for i in range(groups)]
        return [list(range(start, start + count)) for start, count in zip(starts, sizes) if count]
    index_of = {parameter: i for i, parameter in enumerate(parameters)}
    return [[index_of[p] for p in group if p in index_of] for group in groups]


def _check_groups(groups: Any, optimizer: torch.optim.Optimizer) -> Groups:
    if groups is None or isinstance(groups, int):
        if (groups or 0) < 0:
            raise ValueError(f"groups is {groups}; it must be 0 or more, or a list of lists of parameters")
        return groups
    if not all(isinstance(g, (list, tuple)) and all(isinstance(p, torch.Tensor) for p in g) for g in groups):
        raise ValueError("groups must be a whole number, or a list of lists of parameters")
    known = set(map(id, _parameters(optimizer)))
    listed = [id(p) for group in groups for p in group]
    if len(set(listed)) != len(listed):
        raise ValueError("groups: a parameter stands in two groups")
    if not set(listed) <= known:
        raise ValueError("groups: a parameter is not one of the optimizer's")
    return groups


def _choose_scales(op: int, predivide: float, process_set: ProcessSet) -> Tuple[int, float, float]:
    if predivide == 1.0:
        return op, 1.0, 1.0
    if op != Average:
        raise ValueError("gradient_predivide_factor goes with op=Average only")
    return Sum, 1.0 / predivide, predivide / process_set.size()


def _subclass(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """The same optimizer as an instance of its own class with the mixin; state and parameters are shared."""
    kind = type(optimizer)
    wrapped: Any = type(kind.__name__, (mixin, kind), {"__module__": kind.__module__})
    instance = wrapped.__new__(wrapped)
    # a scheduler's patch of `step` belongs to the optimizer it was made with
    instance.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    instance._rueda_wrapped = optimizer
    return instance


def DistributedOptimizer(
    optimizer: Optimizer,
    named_parameters: Named = None,
    compression: Type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    *,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Optimizer:
    """Wraps an optimizer so that ``step()`` uses the gradients of all ranks.

    The result is an instance of the optimizer's own class. With Average and Sum, communication runs during
    ``backward()`` and has ended when that returns: clip, unscale or look at gradients as with one process.
    With ``op=Adasum`` each rank does its own step, and the *changes* of the parameters are combined; the
    learning rate needs no scaling by the number of ranks.

    ``named_parameters``: names for errors and timelines, for all parameters or none.
    ``compression``: ``Compression.none``, ``fp16``, ``bf16``, or a class of your own.
    ``backward_passes_per_step``: gradients of so many passes are added up (not divided) before they travel.
    ``gradient_predivide_factor`` f: gradients are divided by f before and by size/f after the sum.
    ``groups``: parameters that travel together, as lists or as a number of equal parts.
    ``sparse_as_dense``: sparse gradients are made dense instead of gathered; SparseAdam gets them sparse again.
    ``process_set``: the ranks that train together; others step alone.

    At the first step the ranks compare their parameters. If they do not begin alike, one rank warns which
    parameter differs, on which ranks: ``broadcast_parameters`` is missing.
    """
    names = _collect_names(optimizer, named_parameters)
    _check_passes(backward_passes_per_step)
    groups = _check_groups(groups, optimizer)
    if op not in (Average, Sum, Adasum):
        raise ValueError("DistributedOptimizer: op must be Average, Sum or Adasum")
    size()  # raises before init()
    scales = _choose_scales(op, gradient_predivide_factor, process_set)
    wrapped = _subclass(optimizer, AdasumMixin if op == Adasum else AveragingMixin)
    wrapped.op, wrapped.gradient_predivide_factor = op, gradient_predivide_factor
    wrapped.backward_passes_per_step = backward_passes_per_step
    wrapped.sparse_as_dense, wrapped.process_set = sparse_as_dense, process_set
    if op == Adasum:
        wrapped._set_up(names, compression, groups)
    else:
        needs_sparse = isinstance(optimizer, torch.optim.SparseAdam)
        wrapped._set_up(names, Reduction(*scales, compression, sparse_as_dense, process_set, needs_sparse), groups)
    return cast(Optimizer, wrapped)
