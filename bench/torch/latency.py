"""Blocking allreduce from Python, beside torch.distributed's Gloo.

    rueda run -np 2 python bench/torch/latency.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist

import rueda.torch as hvd
from common import in_turns, start, stop

SIZES = [1, 256, 4096, 16384, 262144, 4194304]


def main() -> None:
    start()
    if hvd.rank() == 0:
        print(f"{'bytes':>10} {'rueda µs':>10} {'new tensor':>10} {'gloo µs':>10} {'times':>7}")
    for count in SIZES:
        tensor = torch.ones(count)
        slices = {
            "rueda": lambda: hvd.allreduce_(tensor, name=f"t{count}"),
            "new": lambda: hvd.allreduce(tensor, name=f"t{count}"),
            "gloo": lambda: dist.all_reduce(tensor),
        }
        in_turns(slices, 2, 5)
        tensor.fill_(1)
        repeats = 50 if count < 100_000 else 5
        median = in_turns(slices, 20, repeats)
        if hvd.rank() == 0:
            ours, new, gloo = (median[name] * 1e6 for name in ("rueda", "new", "gloo"))
            print(f"{4 * count:>10} {ours:>10.1f} {new:>10.1f} {gloo:>10.1f} {gloo / ours:>7.1f}")
    stop()


main()
