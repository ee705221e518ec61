"""What the examples have in common: options, the learning rate over time, the order of data, and which device
is ours."""

from __future__ import annotations

import argparse

import torch

import rueda.torch as hvd

import progress

WARM_UP = 0.2  # of the steps


def natural(text: str) -> int:
    """A whole number, 0 or more."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is less than 0")
    return number


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def positive_float(text: str) -> float:
    """A number above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{number} is not a number above 0")
    return number


def add_combining(parser: argparse.ArgumentParser, batch_size: int) -> None:
    """Options of every example that wraps an optimizer."""
    parser.add_argument("--batch-size", type=positive, default=batch_size, help=f"of each rank ({batch_size})")
    parser.add_argument("--use-adasum", action="store_true", help="combine steps by Adasum, not by averaging")
    parser.add_argument("--fp16-allreduce", action="store_true", help="halve what travels")
    parser.add_argument("--seed", type=int, default=1, help="of start values and shuffling (1)")


def add_training(parser: argparse.ArgumentParser, epochs: int, batch_size: int, lr: float) -> None:
    """Options of the examples that train something."""
    add_combining(parser, batch_size)
    parser.add_argument("--epochs", type=positive, default=epochs, help=f"({epochs})")
    parser.add_argument("--lr", type=positive_float, default=lr, help=f"the largest learning rate ({lr})")
    parser.add_argument("--log-interval", type=positive, default=50, help="steps between two reports (50)")
    parser.add_argument("--progress", choices=progress.MODES, default="auto", help="auto: a bar on a terminal")


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
