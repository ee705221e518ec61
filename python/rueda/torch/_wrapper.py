"""What every wrapped optimizer shares with the optimizer it wraps.

Schedulers made before wrapping hold the wrapped optimizer: it keeps the same settings and state.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from .._process_sets import ProcessSet


class WrapperMixin:
    """The base of what a DistributedOptimizer adds to the user's optimizer class."""

    _rueda_wrapped: torch.optim.Optimizer
    state: Any
    param_groups: Any

    #: As they were given to ``DistributedOptimizer``, to be read.
    op: int
    gradient_predivide_factor: float
    backward_passes_per_step: int
    sparse_as_dense: bool
    process_set: ProcessSet

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """As the wrapped optimizer's, which then has the same state."""
        super().load_state_dict(state_dict)  # type: ignore[misc]
        self._rueda_wrapped.state, self._rueda_wrapped.param_groups = self.state, self.param_groups

    def _tell_schedulers(self) -> None:
        """They warn when they step before the optimizer does."""
        self._rueda_wrapped._opt_called = True  # type: ignore[attr-defined]
