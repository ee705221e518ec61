"""What the examples on MNIST share, whatever framework they train with: options, which images a rank reads,
the learning rate, and what is told. Ranks exchange a few numbers here, as NumPy's arrays."""

from __future__ import annotations

import argparse
import math
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy

import rueda.numpy as hvd

import digits
import training
from options import add_training
from progress import Progress

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of all training images
TEST_BATCH = 500
TENTH = 10  # orthogonality is told for the first and the last tenth of the steps


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Trains a network on MNIST.")
    add_training(parser, epochs=2, batch_size=32, lr=0.02)
    parser.add_argument("--momentum", type=float, default=0.9, help="(0.9)")
    parser.add_argument("--scale-lr", action="store_true", help="multiply the rate by the number of ranks")
    digits.add_options(parser)
    return parser


def parse_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options with the digits that they choose, ``training`` and ``test``; bad usage ends the program."""
    options = parser.parse_args()
    if options.use_adasum and options.scale_lr:
        parser.error("--scale-lr goes with averaging only: Adasum needs no other rate for more ranks")
    options.training, options.test = digits.load_chosen(parser, options)
    return options


def largest_rate(options: argparse.Namespace) -> float:
    return options.lr * (hvd.size() if options.scale_lr else 1)


def share_of_rank(epoch: int, options: argparse.Namespace) -> digits.Digits:
    """This rank's images of an epoch, whole batches of them. All ranks shuffle alike, since the seed is the
    same, and each takes its own stretch; no message is needed for that."""
    images, labels = options.training
    share = len(labels) // hvd.size() // options.batch_size * options.batch_size
    own = training.shuffle(len(labels), options.seed + epoch)[hvd.rank() * share : (hvd.rank() + 1) * share]
    return digits.Digits(images[own], labels[own])


def share_of_test(options: argparse.Namespace) -> digits.Digits:
    """Every rank tests with some of the images."""
    images, labels = options.test
    return digits.Digits(images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()])


def test(
    examine: Callable[[numpy.ndarray, numpy.ndarray], Tuple[float, float]], options: argparse.Namespace
) -> Tuple[float, float]:
    """Loss and accuracy of all ranks on the test images; ``examine`` gives, for some of them, the sum of
    their losses and how many were read right."""
    images, labels = share_of_test(options)
    sums = numpy.zeros(3)
    for i in range(0, len(labels), TEST_BATCH):
        batch = labels[i : i + TEST_BATCH]
        sums += [*examine(images[i : i + TEST_BATCH], batch), len(batch)]
    loss, right, count = hvd.allreduce(sums, op=hvd.Sum, name="test")
    return loss / count, right / count


class Agreement:
    """Orthogonality, layer by layer, in the first and in the last tenth of the steps."""

    def __init__(self, steps: int, orthogonality: Callable[..., Any]) -> None:
        self.steps, self.step = steps, 0
        self.orthogonality = orthogonality
        self.sums: Tuple[Dict[str, float], Dict[str, float]] = ({}, {})
        self.tenth = max(1, steps // TENTH)

    def add(self, optimizer: Any) -> float:
        """After a step of Adasum; gives that of the whole step."""
        whole = self.orthogonality()
        self.step += 1
        is_last = self.step > self.steps - self.tenth
        if is_last or self.step <= self.tenth:
            sums = self.sums[is_last]
            for name, value in {**self.orthogonality(optimizer), "the whole step": whole}.items():
                sums[name] = sums.get(name, 0.0) + value / self.tenth
        return whole

    def describe(self, workers: int) -> str:
        first, last = self.sums
        width = max(len(name) for name in last)
        title = "orthogonality".ljust(width + 2)
        lines = [f"\n{title} {'first tenth':>12} {'add up':>7} {'last tenth':>12} {'add up':>7}"]
        for name, end in last.items():
            start = first.get(name, math.nan)
            lines.append(f"  {name:<{width}} {start:12.2f} {start * workers:7.1f} {end:12.2f} {end * workers:7.1f}")
        return "\n".join(lines)


class Report:
    """Loss, accuracy and orthogonality since the last report."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.sums, self.steps = numpy.zeros(3), 0

    def add(self, loss: float, accuracy: float, orthogonality: float) -> None:
        self.sums += [loss, accuracy, orthogonality]
        self.steps += 1

    def means(self) -> List[float]:
        """Over steps, and over all ranks."""
        means = hvd.allreduce(self.sums / self.steps, name="report")
        self.clear()
        return means.tolist()


class Run:
    """A training from its first step to its closing lines. ``orthogonality`` is the framework's."""

    def __init__(self, options: argparse.Namespace, orthogonality: Callable[..., Any]) -> None:
        self.options, self.joined = options, options.batch_size * hvd.size()
        self.steps_in_epoch = len(options.training.labels) // hvd.size() // options.batch_size
        self.steps = self.steps_in_epoch * options.epochs
        if self.steps == 0:
            raise SystemExit(f"a step takes {self.joined} images, and there are {len(options.training.labels)}")
        self.progress = Progress(options.progress, hvd.rank(), hvd.size(), options.epochs, self.steps)
        self.agreement, self.report = Agreement(self.steps, orthogonality), Report()
        self.is_compared = options.use_adasum and hvd.size() > 1
        self.epoch, self.loss, self.accuracy = 0, math.nan, math.nan

    def epochs(self) -> Iterator[int]:
        yield from range(1, self.options.epochs + 1)

    def batches(self, epoch: int) -> Iterator[Tuple[numpy.ndarray, numpy.ndarray]]:
        """This rank's images and labels, while the clock runs."""
        images, labels = share_of_rank(epoch, self.options)
        self.start(epoch)
        for i in range(0, len(labels), self.options.batch_size):
            yield images[i : i + self.options.batch_size], labels[i : i + self.options.batch_size]
        self.stop()

    def start(self, epoch: int) -> None:
        self.epoch = epoch
        self.progress.start()

    def stop(self) -> None:
        self.progress.stop()

    @property
    def rate(self) -> float:
        """The learning rate of the step that comes next."""
        return largest_rate(self.options) * training.rate(self.progress.step, self.steps)

    def advance(self, loss: float, accuracy: float, optimizer: Any) -> None:
        """A step was done, with this loss and accuracy on this rank's images. All ranks are asked for theirs
        when a report is due."""
        self.progress.advance(self.joined)
        self.report.add(loss, accuracy, self.agreement.add(optimizer) if self.is_compared else math.nan)
        if self.progress.step % self.options.log_interval == 0 or self.progress.step == self.steps:
            means = self.report.means()
            self.loss = means[0]
            self.progress.show(self.epoch, *means)

    def tell_test(self, loss: float, accuracy: float) -> None:
        """After an epoch: what the test images gave, on all ranks."""
        self.accuracy = accuracy
        where = f"epoch {self.epoch}/{self.options.epochs}"
        self.progress.say(f"{where}: test loss {loss:.4f}, test accuracy {100 * accuracy:.2f}%")

    def conclude(self) -> None:
        guessing, say = math.log(digits.CLASSES), self.progress.say
        is_trained, is_stuck = self.loss < guessing / 2, self.loss < 2 * guessing
        outcome = "trained" if is_trained else "HARDLY TRAINED" if is_stuck else "DIVERGED"
        if self.is_compared:
            say(self.agreement.describe(hvd.size()))
        say(f"\ntest accuracy  {100 * self.accuracy:.2f}%")
        say(f"images/s       {self.progress.speed:.0f}")
        say(f"step           {self.progress.describe_steps()}")
        say(f"time           {self.progress.seconds:.1f} s")
        say(f"outcome        {outcome}: the loss ended at {self.loss:.3g} (guessing: {guessing:.2f})")
