"""What the measurements against torch.distributed share: both engines in the same processes, in turns."""

from __future__ import annotations

import os
import statistics
import time
from typing import Callable, Dict, List

import torch
import torch.distributed as dist

import rueda.torch as hvd


def start() -> None:
    """Both engines, one thread a rank."""
    torch.set_num_threads(1)
    hvd.init()
    port = hvd.broadcast_object(_free_port() if hvd.rank() == 0 else None)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=hvd.rank(), world_size=hvd.size()
    )


def stop() -> None:
    dist.destroy_process_group()
    hvd.shutdown()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_turns(slices: Dict[str, Callable[[], None]], rounds: int, repeats: int) -> Dict[str, float]:
    """Median seconds of one call of each, measured in short alternating slices."""
    times: Dict[str, List[float]] = {name: [] for name in slices}
    for _ in range(rounds):
        for name, call in slices.items():
            hvd.barrier()
            for _ in range(repeats):
                begin = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}
