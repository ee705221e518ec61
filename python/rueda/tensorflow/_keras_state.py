"""Which variables of a Keras model and of its optimizer all ranks share."""

from __future__ import annotations

from typing import Any, Dict, List


def shared_state(model: Any, optimizer: Any = None) -> List[Any]:
    """The weights and what the optimizer remembers, each once. Left out is what is each rank's own:
    gradients that wait to be used, and the states of random generators, so that ranks drop out different
    units; also what is not a number."""
    variables = list(model.variables)
    waiting = set()
    if optimizer is not None:
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        waiting = {id(v) for v in getattr(inner, "_accumulated_gradients", None) or []}
        variables += optimizer.variables
    shared: Dict[int, Any] = {id(v): v for v in variables if id(v) not in waiting and _is_shared(v)}
    return list(shared.values())


def _is_shared(variable: Any) -> bool:
    return str(variable.name).split(":")[0] != "seed_generator_state" and "string" not in str(variable.dtype)
