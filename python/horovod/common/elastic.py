"""What is kept of a training, whatever the framework."""

from rueda._elastic import ObjectState, State, run_fn

__all__ = ["ObjectState", "State", "run_fn"]
