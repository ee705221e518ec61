"""Options that the examples have in common; no framework is needed for them."""

from __future__ import annotations

import argparse

import progress


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
    parser.add_argument("--seed", type=natural, default=1, help="of start values and shuffling (1)")


def add_training(parser: argparse.ArgumentParser, epochs: int, batch_size: int, lr: float) -> None:
    """Options of the examples that train something."""
    add_combining(parser, batch_size)
    parser.add_argument("--epochs", type=positive, default=epochs, help=f"({epochs})")
    parser.add_argument("--lr", type=positive_float, default=lr, help=f"the largest learning rate ({lr})")
    parser.add_argument("--log-interval", type=positive, default=50, help="steps between two reports (50)")
    parser.add_argument("--progress", choices=progress.MODES, default="auto", help="auto: a bar on a terminal")
