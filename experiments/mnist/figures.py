"""figures.py [FOLDER]: the table and the figures of results/, from results/runs.csv."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from chart import COLORS, Axis, Figure, Panel, Series  # noqa: E402
from sweep import read_rows  # noqa: E402

RESULTS = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "results")
OPS = ["adasum", "average", "sum"]
WORKERS = [8, 16, 32]
SAME_RATE = 0.02
STEP_COLORS = {8: "#56b4e9", 16: "#0072b2", 32: "#003f66"}


def runs():
    rows = read_rows(f"{RESULTS}/runs.csv")
    for row in rows:
        row["workers"], row["seed"] = int(row["workers"]), int(row["seed"])
        row["rate"], row["accuracy"] = float(row["rate"]), 100 * float(row["accuracy"])
    return rows


def of_kind(rows, workers, op, rate=None, seed=None):
    return [
        row
        for row in rows
        if row["workers"] == workers
        and row["op"] == op
        and (rate is None or row["rate"] == rate)
        and (seed is None or row["seed"] == seed)
    ]


def best_rate(rows, workers, op):
    return max(of_kind(rows, workers, op, seed=1), key=lambda row: row["accuracy"])["rate"]


def accuracies(rows, workers, op, rate):
    """Mean over the seeds and its range, for a cell of the table."""
    values = [row["accuracy"] for row in of_kind(rows, workers, op, rate)]
    if not values:
        return "-"
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.2f}%"
    return f"{mean:.2f}% ({min(values):.2f} to {max(values):.2f})"


def table_at_best_rate(rows):
    lines = ["| workers | Adasum | at | average | at | sum | at |", "|---|---|---|---|---|---|---|"]
    rate = best_rate(rows, 1, "one")
    lines.append(f"| 1 | {accuracies(rows, 1, 'one', rate)} | {rate:g} | | | | |")
    for workers in WORKERS:
        cells = [str(workers)]
        for op in OPS:
            rate = best_rate(rows, workers, op)
            cells += [accuracies(rows, workers, op, rate), f"{rate:g}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def table_at_same_rate(rows):
    lines = ["| workers | Adasum | average | sum |", "|---|---|---|---|"]
    lines.append(f"| 1 | {accuracies(rows, 1, 'one', SAME_RATE)} | | |")
    for workers in WORKERS:
        cells = [accuracies(rows, workers, op, SAME_RATE) for op in OPS]
        lines.append(f"| {workers} | " + " | ".join(cells) + " |")
    return lines


def table_of_orthogonality(rows):
    lines = ["| workers | first tenth | last tenth | add up, first | add up, last |"]
    lines.append("|---|---|---|---|---|")
    for workers in WORKERS:
        (row,) = of_kind(rows, workers, "adasum", SAME_RATE, 1)
        first, last = float(row["conv2_first"]), float(row["conv2_last"])
        lines.append(
            f"| {workers} | {first:.2f} | {last:.2f} | {first * workers:.1f} | {last * workers:.1f} |"
        )
    return lines


def table_of_all(rows):
    rates = sorted({row["rate"] for row in rows})
    lines = ["| workers, operation | " + " | ".join(f"{rate:g}" for rate in rates) + " |"]
    lines.append("|---|" + "---|" * len(rates))
    for workers, op in [(1, "one")] + [(w, op) for op in OPS for w in WORKERS]:
        cells = []
        for rate in rates:
            found = of_kind(rows, workers, op, rate, 1)
            mark = {"diverged": " ✗", "guesses": " ✗"}.get(found[0]["outcome"], "") if found else ""
            cells.append(f"{found[0]['accuracy']:.2f}{mark}" if found else "")
        name = "1 worker" if op == "one" else f"{workers}, {op}"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def write_table(rows):
    parts = [
        "# Results\n\n<!-- Made by figures.py from runs.csv; settings.json tells how. -->\n",
        "Test accuracy after 2 epochs, 32 images a worker in a step. Where there are three seeds: mean",
        "and range.\n\n## Each at its best rate of the sweep\n",
        *table_at_best_rate(rows),
        "\n![accuracy by rate](accuracy.svg)\n",
        f"## All at the same rate, {SAME_RATE:g}\n",
        *table_at_same_rate(rows),
        "\n## Orthogonality of the second convolution's weights, rate 0.02\n",
        *table_of_orthogonality(rows),
        "\n![orthogonality over steps](orthogonality.svg)\n",
        "## All rates, first seed\n",
        *table_of_all(rows),
        "\n✗: diverged, or hardly better than guessing at the end.",
    ]
    with open(f"{RESULTS}/README.md", "w") as file:
        file.write("\n".join(parts) + "\n")


def draw_accuracy(rows):
    def points(workers, op):
        return sorted((row["rate"], row["accuracy"]) for row in of_kind(rows, workers, op, seed=1))

    panels = []
    for workers in WORKERS:
        panel = Panel(f"{workers} workers")
        panel.series.append(Series("1 worker", points(1, "one"), "#222222", "2 3", width=1.4))
        for op in ["sum", "average", "adasum"]:
            panel.series.append(Series(op, points(workers, op), COLORS[op]))
        panels.append(panel)
    rates = [0.00125, 0.005, 0.02, 0.08, 0.32]
    x = Axis("largest learning rate", 0.001, 0.8, [(r, f"{r:g}") for r in rates], True)
    y = Axis("test accuracy, %", 92, 99.6, [(v, str(v)) for v in range(92, 100)])
    title = "MNIST, 2 epochs: accuracy by learning rate and operation"
    Figure(title, x, y, panels).save(f"{RESULTS}/accuracy.svg")


def smooth(points, reach=2):
    """Means over a few neighbouring steps: single steps jump."""
    result = []
    for i, (x, _) in enumerate(points):
        near = [y for _, y in points[max(0, i - reach) : i + reach + 1]]
        result.append((x, sum(near) / len(near)))
    return result


def draw_orthogonality():
    panel = Panel("second convolution's weights, Adasum, rate 0.02")
    for workers in WORKERS:
        points = []
        for row in read_rows(f"{RESULTS}/orthogonality-{workers}.csv"):
            points.append((100 * int(row["step"]) / int(row["steps"]), float(row["conv2.weights"])))
        color, name = STEP_COLORS[workers], f"{workers} workers"
        panel.series.append(Series(name, smooth(points), color, markers=False))
    x = Axis("part of the training, %", 0, 100, [(v, str(v)) for v in range(0, 101, 20)])
    y = Axis("orthogonality", 0, 1.05, [(v / 5, f"{v / 5:g}") for v in range(6)])
    title = "Workers agree at first, and go their own ways later"
    Figure(title, x, y, [panel], 520).save(f"{RESULTS}/orthogonality.svg")


def main():
    rows = runs()
    write_table(rows)
    draw_accuracy(rows)
    draw_orthogonality()


main()
