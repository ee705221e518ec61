# Images a second of ResNet-18 on random images, and how that scales from one rank to all of the job:
#     rueda run -np 2 python examples/torch/pytorch_synthetic_benchmark.py
#     rueda run -np 2 python examples/torch/pytorch_synthetic_benchmark.py --width 16 --num-iters 3   # in a minute
# In turns, so that whatever else the machine does meets all alike, it measures rank 0 alone while the others
# wait; all ranks, each training for itself; and all ranks together. The second is the most that the third
# can reach: what it loses, the machine loses (shared memory bandwidth, lower clocks), not communication.

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List

import torch
from torch.nn import functional

import rueda.torch as hvd

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "common"))
from device import own_device
from options import add_combining, natural, positive
from resnet import ResNet18

Step = Callable[[], None]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Images a second, and scaling against one rank.")
    add_combining(parser, batch_size=8)
    parser.add_argument("--image-size", type=positive, default=64, help="pixels of a side (64)")
    parser.add_argument("--width", type=positive, default=64, help="channels of the first stage (64)")
    parser.add_argument("--num-warmup-batches", type=natural, default=3, help="not measured (3)")
    parser.add_argument("--num-batches-per-iter", type=positive, default=5, help="in a turn (5)")
    parser.add_argument("--num-iters", type=positive, default=7, help="turns of each kind (7)")
    return parser.parse_args()


def make_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace) -> Step:
    """One step of training on this rank's random images."""
    device = next(model.parameters()).device
    side = options.image_size
    images = torch.randn(options.batch_size, 3, side, side, device=device)
    labels = torch.randint(1000, (options.batch_size,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step


def images_per_second(step: Step, batches: int, ranks: int, options: argparse.Namespace) -> float:
    """Of the first ``ranks`` ranks; the slowest of them counts."""
    hvd.barrier()
    start = time.perf_counter()
    if hvd.rank() < ranks:
        for _ in range(batches):
            step()
    hvd.barrier()
    return batches * options.batch_size * ranks / (time.perf_counter() - start)


def measure(alone: Step, together: Step, options: argparse.Namespace) -> Dict[str, List[float]]:
    """By kind, the images a second of every turn."""
    kinds = {"one rank alone": (alone, 1), "each for itself": (alone, hvd.size()), "together": (together, hvd.size())}
    if hvd.size() == 1:
        kinds = {"one rank alone": (together, 1)}
    results: Dict[str, List[float]] = {name: [] for name in kinds}
    for turn in range(-1, options.num_iters):
        batches = options.num_batches_per_iter if turn >= 0 else options.num_warmup_batches
        for name, (step, ranks) in kinds.items():
            speed = images_per_second(step, batches, ranks, options)
            if turn >= 0:
                results[name].append(speed)
    return results


def report(results: Dict[str, List[float]], parameters: int, options: argparse.Namespace) -> None:
    how = "Adasum" if options.use_adasum else "averaging"
    wire = ", fp16" if options.fp16_allreduce else ""
    side = options.image_size
    print(f"ResNet-18, {parameters / 1e6:.1f} M parameters, {options.batch_size} images of {side} × {side} a rank")
    print(f"{hvd.size()} ranks × {torch.get_num_threads()} threads, {how}{wire}, median of {options.num_iters} turns\n")
    print(f"{'':18} {'images/s':>9} {'lowest':>9} {'highest':>9}  against one rank")
    medians = {name: statistics.median(speeds) for name, speeds in results.items()}
    for name, speeds in results.items():
        ratio = medians[name] / medians["one rank alone"]
        print(f"{name:18} {medians[name]:9.1f} {min(speeds):9.1f} {max(speeds):9.1f}  {ratio:.2f} ×")
    if hvd.size() > 1:
        of_one = medians["together"] / medians["one rank alone"] / hvd.size()
        of_machine = medians["together"] / medians["each for itself"]
        print(f"\nscaling efficiency {100 * of_one:.0f}%; of what the machine allows {100 * of_machine:.0f}%")
    else:
        print("\nscaling: start it on more ranks, with rueda run -np 2")


def main() -> None:
    options = parse_options()
    hvd.init()
    device = own_device()
    torch.manual_seed(options.seed)
    model = ResNet18(options.width).to(device)
    own_model = copy.deepcopy(model)
    own_optimizer = torch.optim.SGD(own_model.parameters(), lr=0.01, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if options.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if options.use_adasum else hvd.Average,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    torch.manual_seed(options.seed + hvd.rank())  # random images of our own
    together = make_step(model, optimizer, options)
    alone = make_step(own_model, own_optimizer, options)
    results = measure(alone, together, options)
    if hvd.rank() == 0:
        report(results, sum(p.numel() for p in model.parameters()), options)


if __name__ == "__main__":
    main()
