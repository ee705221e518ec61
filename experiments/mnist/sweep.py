"""sweep.py PROGRAM: trains MNIST over learning rates, workers and operations; see README.md.

    python3 experiments/mnist/sweep.py build/release/examples/c/mnist/mnist [--jobs N]
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from sweep import Sweep, machine, train, write_rows  # noqa: E402

EPOCHS, BATCH = 2, 32
SEEDS = [1, 2, 3]  # all rates with the first; the best rate of each with all
OPS = ["adasum", "average", "sum"]
WORKERS = [8, 16, 32]
RATES = {
    "one": [0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16],
    "adasum": [0.005, 0.01, 0.02, 0.04, 0.08, 0.16],
    "average": [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64],
    "sum": [0.00125, 0.0025, 0.005, 0.01, 0.02],
}
FOLLOWED = 0.02  # the rate at which orthogonality is followed step by step
KEYS = ["workers", "op", "rate", "seed"]
COLUMNS = KEYS + [
    "epochs", "batch", "outcome", "accuracy_epoch_1", "accuracy", "loss", "worst_loss",
    "orthogonality_first", "orthogonality_last", "conv2_first", "conv2_last",
    "images_per_second", "seconds",
]  # fmt: skip


def grid():
    """Every rate, with the first seed. One worker combines nothing: it has no operation."""
    yield from ({"workers": 1, "op": "one", "rate": r, "seed": SEEDS[0]} for r in RATES["one"])
    for workers in WORKERS:
        for op in OPS:
            for rate in RATES[op]:
                yield {"workers": workers, "op": op, "rate": rate, "seed": SEEDS[0]}


def best(rows, workers, op):
    """The row of the best rate by the first seed."""
    of_kind = [
        row
        for row in rows
        if (int(row["workers"]), row["op"], int(row["seed"])) == (workers, op, SEEDS[0])
    ]
    return max(of_kind, key=lambda row: float(row["accuracy"]))


def again(rows):
    """The best rates, and the followed one, with the other seeds."""
    kinds = [(1, "one")] + [(workers, op) for workers in WORKERS for op in OPS]
    for workers, op in kinds:
        rates = {float(best(rows, workers, op)["rate"])} | ({FOLLOWED} if op != "sum" else set())
        for rate in sorted(rates):
            for seed in SEEDS[1:]:
                yield {"workers": workers, "op": op, "rate": rate, "seed": seed}


def keep_orthogonality(results, workers):
    def keep(steps):
        rows = [
            {
                "step": s["step"],
                "steps": s["steps"],
                "all": s["orthogonality"],
                "conv2.weights": s["tensors"]["conv2.weights"],
            }
            for s in steps
        ]
        write_rows(f"{results}/orthogonality-{workers}.csv", rows, list(rows[0]))

    return keep


def runner(program, results):
    def run(s):
        op = "adasum" if s["op"] == "one" else s["op"]
        words = ["--workers-per-rank", s["workers"], "--op", op, "--lr", s["rate"]]
        words += ["--seed", s["seed"], "--epochs", EPOCHS, "--batch", BATCH]
        follow = s["op"] == "adasum" and s["rate"] == FOLLOWED and s["seed"] == SEEDS[0]
        keep = keep_orthogonality(results, s["workers"]) if follow else None
        made = train(program, [str(word) for word in words], keep)
        tests = made["test_accuracy"]
        return dict(
            s, epochs=EPOCHS, batch=BATCH, outcome=made["outcome"], accuracy_epoch_1=tests[0],
            accuracy=tests[-1], loss=made["loss"], worst_loss=made["worst_loss"],
            orthogonality_first=made["orthogonality_first"],
            orthogonality_last=made["orthogonality_last"],
            conv2_first=made["tensors_first"]["conv2.weights"],
            conv2_last=made["tensors_last"]["conv2.weights"],
            images_per_second=round(made["images_per_second"]), seconds=round(made["seconds"], 1),
        )  # fmt: skip

    return run


def write_settings(results):
    settings = {
        "program": "examples/c/mnist/mnist --workers-per-rank WORKERS --op OP --lr RATE --seed SEED",
        "epochs": EPOCHS, "batch": BATCH, "seeds": SEEDS, "rates": RATES, "workers": [1] + WORKERS,
        "momentum": 0.9, "schedule": "linear to the rate over a fifth of the steps, then to zero",
        "machine": machine(),
    }  # fmt: skip
    with open(f"{results}/settings.json", "w") as file:
        json.dump(settings, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--results", default=os.path.join(HERE, "results"), help="folder")
    words = parser.parse_args()
    os.makedirs(words.results, exist_ok=True)
    write_settings(words.results)
    sweep = Sweep(
        f"{words.results}/runs.csv", KEYS, COLUMNS, runner(words.program, words.results)
    )
    sweep.go(list(grid()), words.jobs)
    sweep.go(list(again(sweep.rows)), words.jobs)


main()
