# Trains a network with two convolutions on MNIST; the files of data/mnist are enough. Alone, or on N ranks:
#     python examples/torch/pytorch_mnist.py
#     rueda run -np 2 python examples/torch/pytorch_mnist.py --use-adasum
# The four lines that make it distributed are numbered; the rest is a PyTorch program like any other.

from __future__ import annotations

import argparse
import math
from typing import Dict, Iterator, List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

import rueda.torch as hvd

import digits
import training
from options import add_training
from progress import Progress

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of all training images
TEST_BATCH = 500
TENTH = 10  # orthogonality is told for the first and the last tenth of the steps


class Network(nn.Module):
    """The network of examples/c/mnist."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.dense1 = nn.Linear(1024, 128)
        self.dense2 = nn.Linear(128, digits.CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(images), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        return self.dense2(functional.relu(self.dense1(x.flatten(1))))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a network on MNIST.")
    add_training(parser, epochs=2, batch_size=32, lr=0.02)
    parser.add_argument("--momentum", type=float, default=0.9, help="(0.9)")
    parser.add_argument("--scale-lr", action="store_true", help="multiply the rate by the number of ranks")
    digits.add_options(parser)
    options = parser.parse_args()
    if options.use_adasum and options.scale_lr:
        parser.error("--scale-lr goes with averaging only: Adasum needs no other rate for more ranks")
    options.training, options.test = digits.load_chosen(parser, options)
    return options


def to_tensors(images: Tensor, labels: Tensor, device: torch.device) -> Tuple[Tensor, Tensor]:
    """What the network reads, from bytes."""
    pixels = images.to(device).float().unsqueeze(1)
    return (pixels / 255 - MEAN) / DEVIATION, labels.to(device).long()


def batches_of_rank(data: digits.Digits, epoch: int, options: argparse.Namespace) -> Iterator[Tuple[Tensor, Tensor]]:
    """This rank's part of an epoch. All ranks shuffle alike, since the seed is the same, and each takes
    its own stretch; no message is needed for that."""
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    order = training.shuffle(len(labels), options.seed + epoch)
    share = len(labels) // hvd.size()
    own = order[hvd.rank() * share : (hvd.rank() + 1) * share]
    for step in range(share // options.batch_size):
        chosen = own[step * options.batch_size : (step + 1) * options.batch_size]
        yield images[chosen], labels[chosen]


def test(model: nn.Module, data: digits.Digits, device: torch.device) -> Tuple[float, float]:
    """Loss and accuracy on the test images: each rank reads some, and the sums of all are added."""
    images = torch.from_numpy(data.images[hvd.rank() :: hvd.size()])
    labels = torch.from_numpy(data.labels[hvd.rank() :: hvd.size()])
    sums = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for i in range(0, len(labels), TEST_BATCH):
            x, y = to_tensors(images[i : i + TEST_BATCH], labels[i : i + TEST_BATCH], device)
            guess = model(x)
            loss = functional.cross_entropy(guess, y, reduction="sum")
            sums += torch.tensor([loss.item(), (guess.argmax(1) == y).sum().item(), len(y)])
    loss_sum, correct, count = hvd.allreduce(sums, op=hvd.Sum, name="test").tolist()
    return loss_sum / count, correct / count


class Agreement:
    """Orthogonality, layer by layer, in the first and in the last tenth of the steps."""

    def __init__(self, steps: int) -> None:
        self.steps, self.step = steps, 0
        self.sums: Tuple[Dict[str, float], Dict[str, float]] = ({}, {})
        self.tenth = max(1, steps // TENTH)

    def add(self, optimizer: torch.optim.Optimizer) -> float:
        """After a step of Adasum; gives that of the whole step."""
        whole = hvd.orthogonality()
        self.step += 1
        is_last = self.step > self.steps - self.tenth
        if is_last or self.step <= self.tenth:
            sums = self.sums[is_last]
            for name, value in {**hvd.orthogonality(optimizer), "the whole step": whole}.items():
                sums[name] = sums.get(name, 0.0) + value / self.tenth
        return whole

    def describe(self, workers: int) -> str:
        first, last = self.sums
        lines = [f"\n{'orthogonality':<17} {'first tenth':>12} {'add up':>7} {'last tenth':>12} {'add up':>7}"]
        for name, end in last.items():
            start = first.get(name, math.nan)
            lines.append(f"  {name:<15} {start:12.2f} {start * workers:7.1f} {end:12.2f} {end * workers:7.1f}")
        return "\n".join(lines)


class Report:
    """Loss, accuracy and orthogonality since the last report."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.sums, self.steps = torch.zeros(3, dtype=torch.float64), 0

    def add(self, guess: Tensor, labels: Tensor, loss: Tensor, orthogonality: float) -> None:
        accuracy = (guess.argmax(1) == labels).float().mean()
        self.sums += torch.tensor([loss.item(), accuracy.item(), orthogonality])
        self.steps += 1

    def means(self) -> List[float]:
        """Over steps, and over all ranks."""
        means = hvd.allreduce(self.sums / self.steps, name="report")
        self.clear()
        return means.tolist()


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, options: argparse.Namespace
) -> None:
    joined = options.batch_size * hvd.size()
    steps = len(options.training.labels) // hvd.size() // options.batch_size * options.epochs
    if steps == 0:
        raise SystemExit(f"a step takes {joined} images, and there are {len(options.training.labels)}")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: training.rate(step, steps))
    progress = Progress(options.progress, hvd.rank(), hvd.size(), options.epochs, steps)
    agreement, report = Agreement(steps), Report()
    is_compared = options.use_adasum and hvd.size() > 1
    for epoch in range(1, options.epochs + 1):
        progress.start()
        for images, labels in batches_of_rank(options.training, epoch, options):
            x, y = to_tensors(images, labels, device)
            optimizer.zero_grad()
            guess = model(x)
            loss = functional.cross_entropy(guess, y)
            loss.backward()
            optimizer.step()
            schedule.step()
            progress.advance(joined)
            report.add(guess, y, loss, agreement.add(optimizer) if is_compared else math.nan)
            if progress.step % options.log_interval == 0 or progress.step == steps:
                means = report.means()
                progress.show(epoch, *means)
        progress.stop()
        test_loss, right = test(model, options.test, device)
        progress.say(f"epoch {epoch}/{options.epochs}: test loss {test_loss:.4f}, test accuracy {100 * right:.2f}%")
    conclude(progress, agreement, means[0], right)


def conclude(progress: Progress, agreement: Agreement, loss: float, accuracy: float) -> None:
    guessing = math.log(digits.CLASSES)
    outcome = "trained" if loss < guessing / 2 else "HARDLY TRAINED" if loss < 2 * guessing else "DIVERGED"
    if agreement.step:
        progress.say(agreement.describe(hvd.size()))
    progress.say(f"\ntest accuracy  {100 * accuracy:.2f}%")
    progress.say(f"images/s       {progress.speed:.0f}")
    progress.say(f"step           {progress.describe_steps()}")
    progress.say(f"time           {progress.seconds:.1f} s")
    progress.say(f"outcome        {outcome}: the loss ended at {loss:.3g} (guessing: {guessing:.2f})")


def main() -> None:
    options = parse_options()
    hvd.init()  # 1: join the job
    device = training.own_device()  # 2: a GPU of our own; without GPUs the launcher has given us our cores
    torch.manual_seed(options.seed)
    model = Network().to(device)
    lr = options.lr * (hvd.size() if options.scale_lr else 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=options.momentum)
    optimizer = hvd.DistributedOptimizer(  # 3: combine what the ranks have learned
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # 4: all begin alike
    train(model, optimizer, device, options)


if __name__ == "__main__":
    main()
