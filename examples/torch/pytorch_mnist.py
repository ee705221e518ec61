# Trains a network with two convolutions on MNIST; the files of data/mnist are enough. Alone, or on N ranks:
#     python examples/torch/pytorch_mnist.py
#     rueda run -np 2 python examples/torch/pytorch_mnist.py --use-adasum
# The four lines that make it distributed are numbered; the rest is a PyTorch program like any other.

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Tuple

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

import rueda.torch as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
import digits
import mnist
from device import own_device
from training import rate


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


def to_tensors(images: numpy.ndarray, labels: numpy.ndarray, device: torch.device) -> Tuple[Tensor, Tensor]:
    """What the network reads, from bytes."""
    pixels = torch.from_numpy(images).to(device).float().unsqueeze(1)
    return (pixels / 255 - mnist.MEAN) / mnist.DEVIATION, torch.from_numpy(labels).to(device).long()


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, options: argparse.Namespace
) -> None:
    def examine(images: numpy.ndarray, labels: numpy.ndarray) -> Tuple[float, float]:
        x, y = to_tensors(images, labels, device)
        with torch.no_grad():
            guess = model(x)
            loss = functional.cross_entropy(guess, y, reduction="sum")
        return loss.item(), (guess.argmax(1) == y).sum().item()

    run = mnist.Run(options, hvd.orthogonality)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, run.steps))
    for epoch in run.epochs():
        for images, labels in run.batches(epoch):
            x, y = to_tensors(images, labels, device)
            optimizer.zero_grad()
            guess = model(x)
            loss = functional.cross_entropy(guess, y)
            loss.backward()
            optimizer.step()
            schedule.step()
            run.advance(loss.item(), (guess.argmax(1) == y).float().mean().item(), optimizer)
        run.tell_test(*mnist.test(examine, options))
    run.conclude()


def main() -> None:
    options = mnist.parse_options(mnist.make_parser())
    hvd.init()  # 1: join the job
    device = own_device()  # 2: a GPU of our own; without GPUs the launcher has given us our cores
    torch.manual_seed(options.seed)
    model = Network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=mnist.largest_rate(options), momentum=options.momentum)
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
