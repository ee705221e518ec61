"""speed.py PROGRAM [DATA]: images a second of the C trainer and of PyTorch, one thread each, in turns.

    python3 examples/c/mnist/pytorch/speed.py build/release/examples/c/mnist/mnist

Both do whole steps of training: take a batch, forward, backward, SGD with momentum. PyTorch does so in
its usual memory layout and in channels_last, which is faster for some networks. A turn is a few
hundred steps on one core; its figure is its median step, so that what else the machine does now and
then does not count. The C program's turn includes what surrounds a step there (its log)."""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
import torch
import network

TURNS = 5
STEPS = 300
BATCH = 32
WARM = 20  # steps at the start of a turn that do not count


def median_ms(times):
    return 1000 * statistics.median(times[WARM:])


def turn_of_c(program, data):
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/log.csv"
        limit = str(STEPS * BATCH)
        command = [program, "--epochs", "1", "--batch", str(BATCH), "--limit", limit]
        command += ["--data", data, "--log", log, "--progress", "none"]
        subprocess.run(command, check=True)
        with open(log, newline="") as file:
            ends = [float(row["seconds"]) for row in csv.DictReader(file)]
    return median_ms([b - a for a, b in zip([0.0] + ends, ends)])


def turn_of_pytorch(images, labels, memory_format):
    torch.manual_seed(1)
    net = network.Network().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    order = torch.randperm(len(images))
    times = []
    for step in range(STEPS):
        start = time.perf_counter()
        batch = order[step * BATCH : (step + 1) * BATCH]
        inputs = images[batch].to(memory_format=memory_format)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels[batch]).backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    return median_ms(times)


def main():
    program = sys.argv[1]
    here = os.path.dirname(os.path.abspath(__file__))
    data = sys.argv[2] if len(sys.argv) > 2 else f"{here}/../../../../data/mnist"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    images, labels = network.load_images(data, "train", STEPS * BATCH)
    sides = {
        "C": lambda: turn_of_c(program, data),
        "PyTorch": lambda: turn_of_pytorch(images, labels, torch.contiguous_format),
        "PyTorch, channels_last": lambda: turn_of_pytorch(images, labels, torch.channels_last),
    }
    turns = {name: [] for name in sides}
    for turn in range(TURNS):
        for name, side in sides.items():
            turns[name].append(side())
        print(f"turn {turn + 1} of {TURNS}", file=sys.stderr)
    print(f"PyTorch {torch.__version__}, batch {BATCH}, median step of {STEPS}, {TURNS} turns each\n")
    print("| | step, ms | images/s | C by it |\n|---|---|---|---|")
    ours = statistics.median(turns["C"])
    for name, times in turns.items():
        middle = statistics.median(times)
        print(f"| {name} | {middle:.2f} ({min(times):.2f} to {max(times):.2f}) | ", end="")
        print(f"{1000 * BATCH / middle:.0f} | {middle / ours:.2f} |")


main()
