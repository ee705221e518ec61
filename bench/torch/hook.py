"""What a gradient hook costs for a small parameter: a backward pass of many small layers with and without
the optimizer's hooks. The hooks' pass also combines one bucket; an allreduce of that size is measured
beside it and told apart.

    rueda run -np 2 python bench/torch/hook.py
"""

from __future__ import annotations

import statistics
import time

import torch

import rueda.torch as hvd

LAYERS = 200


class Chain(torch.nn.Module):
    """Many parameters of eight elements, and next to nothing to compute."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(8)) for _ in range(LAYERS)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x * weight
        return x.sum()


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    plain, hooked = Chain(), Chain()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(hooked.parameters(), lr=0.0))
    data = torch.ones(8)
    times = {"plain": [], "hooked": []}
    engine = []
    for _ in range(300):
        for name, model in (("plain", plain), ("hooked", hooked)):
            model.zero_grad()
            loss = model(data)
            begin = time.perf_counter()
            loss.backward()
            times[name].append(time.perf_counter() - begin)
            optimizer.step()
        small = torch.ones(LAYERS * 24)
        begin = time.perf_counter()
        hvd.allreduce_(small, name="as-large")
        engine.append(time.perf_counter() - begin)
    medians = {name: statistics.median(each[50:]) * 1e6 for name, each in times.items()}
    cost = medians["hooked"] - medians["plain"]
    if hvd.rank() == 0:
        own = statistics.median(engine[50:]) * 1e6
        print(f"backward of {LAYERS} small parameters: {medians['plain']:.0f} µs, with hooks {medians['hooked']:.0f} µs")
        print(f"a parameter: {cost / LAYERS:.2f} µs; without one allreduce of that size ({own:.0f} µs): {(cost - own) / LAYERS:.2f} µs")


main()
