"""sweep.py PROGRAM CORPUS: trains word vectors over rates, workers and operations; see README.md.

    python3 experiments/word2vec/sweep.py build/release/examples/c/word2vec/word2vec kjv.txt [--jobs N]
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from sweep import Sweep, machine, train, write_rows  # noqa: E402

EPOCHS, SEED = 5, 1
WORKERS = [16, 32]
RATES = {
    "one": [0.025, 0.05, 0.1, 0.15, 0.2, 0.3],
    "adasum": [0.025, 0.05, 0.1, 0.15, 0.2],
    "average": [0.05, 0.1, 0.2, 0.4, 0.8, 1.6],
    "gather": [0.0125, 0.025, 0.05, 0.1],
}
FOLLOWED = 0.1  # the rate at which orthogonality is followed step by step
KEYS = ["workers", "op", "rate", "seed"]
COLUMNS = KEYS + [
    "epochs", "outcome", "partners", "loss", "orthogonality_first", "orthogonality_last",
    "pairs_per_second", "seconds",
]  # fmt: skip


def grid():
    """One worker combines nothing: it has no operation."""
    yield from ({"workers": 1, "op": "one", "rate": r, "seed": SEED} for r in RATES["one"])
    for workers in WORKERS:
        for op in ["adasum", "average", "gather"]:
            for rate in RATES[op]:
                yield {"workers": workers, "op": op, "rate": rate, "seed": SEED}


def keep_orthogonality(results, workers):
    def keep(steps):
        rows = [
            {"step": s["step"], "steps": s["steps"], **s["tensors"]}
            for s in steps[:: max(1, len(steps) // 200)]
        ]
        write_rows(f"{results}/orthogonality-{workers}.csv", rows, list(rows[0]))

    return keep


def runner(program, corpus, results):
    def run(s):
        op = "adasum" if s["op"] == "one" else s["op"]
        words = ["--corpus", corpus, "--workers-per-rank", s["workers"], "--op", op]
        words += ["--lr", s["rate"], "--seed", s["seed"], "--epochs", EPOCHS]
        follow = s["op"] == "adasum" and s["rate"] == FOLLOWED
        keep = keep_orthogonality(results, s["workers"]) if follow else None
        made = train(program, [str(word) for word in words], keep)
        return dict(
            s, epochs=EPOCHS, outcome=made["outcome"], partners=made["partners_found"][-1],
            loss=made["loss"], orthogonality_first=made["orthogonality_first"],
            orthogonality_last=made["orthogonality_last"],
            pairs_per_second=round(made["pairs_per_second"]), seconds=round(made["seconds"], 1),
        )  # fmt: skip

    return run


def write_settings(results):
    settings = {
        "program": "examples/c/word2vec/word2vec --workers-per-rank WORKERS --op OP --lr RATE",
        "corpus": "King James Bible, Debian's bible-kjv-text, by examples/c/word2vec/corpus.sh",
        "epochs": EPOCHS, "seed": SEED, "rates": RATES, "workers": [1] + WORKERS, "size": 100,
        "window": 5, "negatives": 5, "least": 5, "frequent": 1e-3, "machine": machine(),
        "lines": "256 in a step for all workers together; gather: 1 for each worker",
    }  # fmt: skip
    with open(f"{results}/settings.json", "w") as file:
        json.dump(settings, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("corpus")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    parser.add_argument("--results", default=os.path.join(HERE, "results"), help="folder")
    words = parser.parse_args()
    os.makedirs(words.results, exist_ok=True)
    write_settings(words.results)
    sweep = Sweep(
        f"{words.results}/runs.csv",
        KEYS,
        COLUMNS,
        runner(words.program, words.corpus, words.results),
    )
    sweep.go(list(grid()), words.jobs)


main()
