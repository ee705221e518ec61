"""Adasum of updates: every rank does its own step, and what changed is combined.

The learning rate, momentum and whatever else an optimizer does are inside of what is combined, so clipping,
loss scaling and accumulation work as with one process, and nothing has to be scaled by the number of
ranks. Parameters are the same on all ranks after a step because they were before it and all add the same
combined change.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

import torch

from ._alike import warn_if_different
from ._reducer import shared_tensor
from ._tensors import native, on_host
from ._wrapper import WrapperMixin
from .. import _native
from .._calls import full_name
from .._reduce_op import Adasum
from .compression import Compressor, NoneCompressor


def _shared_like(parameter: torch.Tensor) -> torch.Tensor:
    if parameter.is_complex():
        return shared_tensor(2 * parameter.numel(), parameter.dtype.to_real()).view(*parameter.shape, 2)
    return shared_tensor(parameter.numel(), parameter.dtype).view(parameter.shape)


class _Update:
    """One parameter's value before the step, and its change."""

    def __init__(self, name: str, parameter: torch.Tensor) -> None:
        self.name, self.parameter = name, parameter
        self.start = parameter.detach().clone()
        self.wire = _shared_like(parameter)  # the change as real numbers
        self.change = torch.view_as_complex(self.wire) if parameter.is_complex() else self.wire
        self.request: Optional[_native.Request] = None

    def measure(self) -> None:
        """What the local step has changed."""
        if self.parameter.device.type == "cpu":
            torch.sub(self.parameter.detach(), self.start, out=self.change)
        else:
            self.change.copy_(self.parameter.detach() - self.start)

    def apply(self, wire: torch.Tensor) -> None:
        """The value before the step, plus the combined change."""
        value = self.parameter.detach()
        change = torch.view_as_complex(wire) if value.is_complex() else wire
        torch.add(self.start, change.to(value.device), out=value)


class AdasumMixin(WrapperMixin):
    """What a DistributedOptimizer with op=Adasum adds to the user's optimizer class."""

    #: GradScaler then always calls step(), also on a rank whose gradients overflowed; see step().
    _step_supports_amp_scaling = True

    def _set_up(
        self,
        names: Dict[torch.Tensor, str],
        compression: Type[Compressor],
        groups: Any,
    ) -> None:
        self._rueda_names, self._rueda_compression = names, compression
        self._rueda_groups = groups
        self._rueda_updates: List[_Update] = []
        self._rueda_generation = -1

    def _updates(self) -> List[_Update]:
        """One for each parameter that can change; made when first needed."""
        wanted = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        current = [update.parameter for update in self._rueda_updates]
        same = len(wanted) == len(current) and all(a is b for a, b in zip(wanted, current))
        if not same or self._rueda_generation != _native.generation():
            self._rueda_updates = [
                _Update(self._rueda_names.get(p) or f"noname.{i}", p) for i, p in enumerate(wanted)
            ]
            self._rueda_generation = _native.generation()
            names = [update.name for update in self._rueda_updates]
            if names:
                warn_if_different(names, wanted, f"adasum.{names[0]}", self.process_set)
        return self._rueda_updates

    def step(self, closure: Any = None) -> Any:
        """The optimizer's step on this rank, then the Adasum of all ranks' changes. A rank whose
        gradients overflowed under loss scaling changes nothing itself and takes the others' change."""
        self._tell_schedulers()
        members = self.process_set
        if not members.included() or members.size() == 1:
            return self._local_step(closure)
        updates = self._updates()
        torch._foreach_copy_([u.start for u in updates], [u.parameter.detach() for u in updates])
        result = self._local_step(closure)
        with torch.no_grad():
            self._combine(updates)
        return result

    step.hooked = True  # type: ignore[attr-defined]  # the base's step runs the hooks of steps

    def _local_step(self, closure: Any) -> Any:
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and float(found_inf) > 0:
            return None
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            self._unscale(float(scale))
        if found_inf is not None:  # both are dealt with; optimizers that do not know them refuse them
            self.grad_scale = self.found_inf = None
        return super().step() if closure is None else super().step(closure)  # type: ignore[misc]

    def _unscale(self, scale: float) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(scale)

    def _combine(self, updates: List[_Update]) -> None:
        if self._rueda_compression is not NoneCompressor:
            self._combine_compressed(updates)
            return
        for group in self._grouped(updates):
            for update in group:
                update.measure()
            self._submit(group, [update.wire for update in group])
        for update in updates:
            assert update.request is not None
            update.request.wait()
            update.apply(update.wire)

    def _grouped(self, updates: List[_Update]) -> List[List[_Update]]:
        """What travels together: the user's groups; all others each alone."""
        groups = self._rueda_groups
        if not groups:
            return [[update] for update in updates]
        if isinstance(groups, int):
            return [g for g in (updates[i::groups] for i in range(groups)) if g]
        chosen = [[u for u in updates if any(u.parameter is p for p in group)] for group in groups]
        taken = {id(u) for group in chosen for u in group}
        return [g for g in chosen if g] + [[u] for u in updates if id(u) not in taken]

    def _submit(self, group: List[_Update], tensors: List[torch.Tensor]) -> None:
        names = [full_name("allreduce", update.name) for update in group]
        number = self.process_set._require_id()
        if len(group) == 1:
            request = _native.submit(
                0, native(tensors[0]), None, names[0], Adasum, 1.0, 1.0, number, 0, 0, None
            )
        else:
            natives = [native(tensor) for tensor in tensors]
            request = _native.submit_group(natives, [None] * len(group), names, Adasum, 1.0, 1.0, number, 0)
        for update in group:
            update.request = request

    def _combine_compressed(self, updates: List[_Update]) -> None:
        small: List[Tuple[torch.Tensor, Any]] = []
        for group in self._grouped(updates):
            for update in group:
                update.measure()
            pairs = [self._rueda_compression.compress(update.wire) for update in group]
            self._submit(group, [on_host(pair[0]) for pair in pairs])
            small.extend(pairs)
        order = [update for group in self._grouped(updates) for update in group]
        for update, (tensor, context) in zip(order, small):
            assert update.request is not None
            update.request.wait()
            update.apply(self._rueda_compression.decompress(tensor, context))

    def orthogonality(self) -> Dict[str, float]:
        """Of the last step, by parameter; see ``rueda.torch.orthogonality``."""
        values = {}
        for update in self._rueda_updates:
            values[update.name] = _native.orthogonality(full_name("allreduce", update.name))
        return values

    # ---- Horovod's methods: there is nothing to wait for before step()

    def synchronize(self) -> None:
        """Does nothing: gradients stay this rank's own."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Changes nothing."""
        yield

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Changes nothing: backward passes never communicate."""
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Changes nothing else: ``step()`` takes whatever was accumulated."""
        self.backward_passes_per_step = passes
