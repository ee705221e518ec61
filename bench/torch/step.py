"""A training step with ResNet-18-sized gradients and little to compute: what communication adds to it.

Three models with the same weights take the same steps in turns: alone, with DistributedDataParallel over
Gloo, and with hvd.DistributedOptimizer (averaging, and Adasum of the updates).

    rueda run -np 2 python bench/torch/step.py
"""

from __future__ import annotations

from typing import Callable, List

import torch
from torch.nn.parallel import DistributedDataParallel

import rueda.torch as hvd
from common import in_turns, start, stop

CHANNELS = [64, 64, 128, 256, 512]  # of ResNet-18's four stages, 11 million parameters in 3 × 3 layers


def make_model() -> torch.nn.Module:
    """ResNet-18's layers on images of 8 × 8: all of its parameters, little to compute."""
    torch.manual_seed(7)
    layers: List[torch.nn.Module] = [torch.nn.Conv2d(3, 64, 7, padding=3, stride=2), torch.nn.BatchNorm2d(64)]
    for stage, (before, after) in enumerate(zip(CHANNELS, CHANNELS[1:])):
        for depth in range(4):
            stride = 2 if depth == 0 and stage > 0 else 1
            source = before if depth == 0 else after
            layers += [
                torch.nn.Conv2d(source, after, 3, padding=1, stride=stride, bias=False),
                torch.nn.BatchNorm2d(after),
                torch.nn.ReLU(),
            ]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000))


def make_step(kind: str) -> Callable[[], None]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    forward: torch.nn.Module = model
    if kind == "ddp":
        forward = DistributedDataParallel(model)
    elif kind != "alone":
        op = hvd.Adasum if kind == "adasum" else hvd.Average
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=op)
    images, labels = torch.randn(2, 3, 8, 8), torch.tensor([1, 2])

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(images), labels).backward()
        optimizer.step()

    return step


def main() -> None:
    start()
    slices = {kind: make_step(kind) for kind in ("alone", "ddp", "rueda", "adasum")}
    in_turns(slices, 2, 2)
    median = in_turns(slices, 15, 3)
    if hvd.rank() == 0:
        parameters = sum(p.numel() for p in make_model().parameters())
        print(f"{parameters / 1e6:.1f} million parameters; median ms of a step, and over one alone")
        for kind, seconds in median.items():
            print(f"{kind:>8} {seconds * 1e3:8.1f} {(seconds - median['alone']) * 1e3:8.1f}")
        ratio = (median["rueda"] - median["alone"]) / (median["ddp"] - median["alone"])
        print(f"what communication adds, rueda by DDP-Gloo: {ratio:.2f}")
    stop()


main()
