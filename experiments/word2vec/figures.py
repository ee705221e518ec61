"""figures.py [FOLDER]: the table and the figures of results/, from results/runs.csv."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from chart import COLORS, Axis, Figure, Panel, Series  # noqa: E402
from sweep import read_rows  # noqa: E402

RESULTS = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "results")
OPS = ["adasum", "average", "gather"]
WORKERS = [16, 32]
ALL_COLORS = dict(COLORS, gather="#009e73")


def runs():
    rows = read_rows(f"{RESULTS}/runs.csv")
    for row in rows:
        row["workers"], row["rate"] = int(row["workers"]), float(row["rate"])
        row["partners"] = 100 * float(row["partners"] or 0)
    return rows


def of_kind(rows, workers, op):
    return [row for row in rows if (row["workers"], row["op"]) == (workers, op)]


def best(rows, workers, op):
    return max(of_kind(rows, workers, op), key=lambda row: row["partners"])


def cell(row):
    return f"{row['partners']:.1f}% at {row['rate']:g}"


def table(rows):
    lines = ["| workers | Adasum | average | gather |", "|---|---|---|---|"]
    lines.append(f"| 1 | {cell(best(rows, 1, 'one'))} | | |")
    for workers in WORKERS:
        cells = [cell(best(rows, workers, op)) for op in OPS]
        lines.append(f"| {workers} | " + " | ".join(cells) + " |")
    return lines


def table_of_all(rows):
    rates = sorted({row["rate"] for row in rows})
    lines = ["| workers, operation | " + " | ".join(f"{rate:g}" for rate in rates) + " |"]
    lines.append("|---|" + "---|" * len(rates))
    for workers, op in [(1, "one")] + [(w, op) for op in OPS for w in WORKERS]:
        found = {row["rate"]: row for row in of_kind(rows, workers, op)}
        cells = []
        for rate in rates:
            mark = " ✗" if rate in found and found[rate]["outcome"] != "trained" else ""
            cells.append(f"{found[rate]['partners']:.1f}{mark}" if rate in found else "")
        name = "1 worker" if op == "one" else f"{workers}, {op}"
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def write_table(rows):
    parts = [
        "# Results\n\n<!-- Made by figures.py from runs.csv; settings.json tells how. -->\n",
        "Partners found: of a list of words that belong together, how many are among each other's ten",
        "nearest after 5 epochs. One seed; another changes it by one or two points.\n",
        "## Each at its best rate of the sweep\n",
        *table(rows),
        "\n![partners found by rate](partners.svg)\n",
        "## Orthogonality of the tables' changes, Adasum, rate 0.1\n",
        "![orthogonality over steps](orthogonality.svg)\n",
        "## All rates\n",
        *table_of_all(rows),
        "\n✗: diverged, or hardly better than guessing at the end.",
    ]
    with open(f"{RESULTS}/README.md", "w") as file:
        file.write("\n".join(parts) + "\n")


def draw_partners(rows):
    def points(workers, op):
        return sorted((row["rate"], row["partners"]) for row in of_kind(rows, workers, op))

    panels = []
    for workers in WORKERS:
        panel = Panel(f"{workers} workers")
        panel.series.append(Series("1 worker", points(1, "one"), "#222222", "2 3", width=1.4))
        for op in ["gather", "average", "adasum"]:
            panel.series.append(Series(op, points(workers, op), ALL_COLORS[op]))
        panels.append(panel)
    rates = [0.0125, 0.05, 0.2, 0.8]
    x = Axis("largest learning rate", 0.01, 2, [(r, f"{r:g}") for r in rates], True)
    y = Axis("partners found, %", 10, 85, [(v, str(v)) for v in range(10, 90, 10)])
    title = "word2vec, 5 epochs: partners found by learning rate and operation"
    Figure(title, x, y, panels, 300).save(f"{RESULTS}/partners.svg")


def draw_orthogonality():
    panels = []
    for table_name in ["input", "output"]:
        panel = Panel(f"{table_name} vectors")
        for workers, color in [(16, "#0072b2"), (32, "#003f66")]:
            points = [
                (100 * int(row["step"]) / int(row["steps"]), float(row[table_name]))
                for row in read_rows(f"{RESULTS}/orthogonality-{workers}.csv")
            ]
            panel.series.append(Series(f"{workers} workers", points, color, markers=False))
        panels.append(panel)
    x = Axis("part of the training, %", 0, 100, [(v, str(v)) for v in range(0, 101, 20)])
    y = Axis("orthogonality", 0, 1.05, [(v / 5, f"{v / 5:g}") for v in range(6)])
    Figure("What workers learn about words", x, y, panels, 300).save(
        f"{RESULTS}/orthogonality.svg"
    )


def main():
    rows = runs()
    write_table(rows)
    draw_partners(rows)
    draw_orthogonality()


main()
