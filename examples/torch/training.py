"""What the examples have in common: the learning rate over time, the order of data, which device is ours."""

from __future__ import annotations

import torch

import rueda.torch as hvd

WARM_UP = 0.2  # of the steps


def rate(step: int, steps: int) -> float:
    """The part of the largest learning rate for a step: it rises linearly over the first fifth of the
    steps, then falls linearly to zero."""
    peak = max(1, int(WARM_UP * steps))
    return min((step + 1) / peak, (steps - step) / max(1, steps - peak), 1.0)


def shuffle(count: int, seed: int) -> torch.Tensor:
    """The numbers below ``count`` in an order that is the same on all ranks."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def own_device() -> torch.device:
    """The GPU of this rank, or the processor where there is none."""
    count = torch.cuda.device_count()
    if count == 0:
        return torch.device("cpu")
    device = torch.device("cuda", hvd.local_rank() % count)
    torch.cuda.set_device(device)
    return device
