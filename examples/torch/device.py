"""Which device is ours."""

from __future__ import annotations

import torch

import rueda.torch as hvd


def own_device() -> torch.device:
    """The GPU of this rank, or the processor where there is none."""
    count = torch.cuda.device_count()
    if count == 0:
        return torch.device("cpu")
    device = torch.device("cuda", hvd.local_rank() % count)
    torch.cuda.set_device(device)
    return device
