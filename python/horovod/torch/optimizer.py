"""The user's optimizer, with gradients combined over all ranks."""

from rueda.torch.optimizer import DistributedOptimizer

__all__ = ["DistributedOptimizer"]
