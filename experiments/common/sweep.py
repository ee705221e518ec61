"""sweep.py: runs training programs over a list of settings, one row of results for each.

Results are a CSV file with one row for every run, keyed by its settings. A run whose row is there is
skipped, so a sweep that was stopped goes on where it was, and one that grew runs what is new.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_rows(path, rows, columns):
    """Whole or not at all, in one order: a sweep may be stopped at any time."""
    with open(path + ".new", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    os.replace(path + ".new", path)


def train(program, arguments, keep_log=None):
    """Runs a program to its end; returns its summary. Its log of steps is kept as `keep_log`."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.json")
        command = [program, "--progress", "none", "--log", log] + arguments
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        with open(log) as file:
            events = [json.loads(line) for line in file]
    if keep_log is not None:
        keep_log([event for event in events if event["event"] == "step"])
    return next(event for event in events if event["event"] == "summary")


def show(text):
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"\033[K{text}" if end == "\r" else text, end=end, file=sys.stderr, flush=True)


def clock(seconds):
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d}:{int(seconds) % 60:02d}"


class Sweep:
    """`keys` are the columns that name a run, `run(key values) -> row` makes one."""

    def __init__(self, path, keys, columns, run):
        self.path, self.keys, self.columns, self.run = path, keys, columns, run
        self.rows = read_rows(path)

    def key(self, row):
        return tuple(str(row[name]) for name in self.keys)

    def go(self, wanted, jobs):
        """Runs what is wanted and not there, `jobs` at a time."""
        there = {self.key(row) for row in self.rows}
        missing = [settings for settings in wanted if self.key(settings) not in there]
        start, done = time.time(), 0
        if len(wanted) > len(missing):
            show(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there already")
        with ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(self.run, settings) for settings in missing]
            try:
                for future in as_completed(running):
                    row = future.result()
                    self.add(row)
                    done += 1
                    left = (time.time() - start) / done * (len(missing) - done)
                    what = describe(row, self.keys)
                    show(f"{done}/{len(missing)}, about {clock(left)} left: {what}")
            except (RuntimeError, KeyboardInterrupt) as error:
                pool.shutdown(cancel_futures=True)
                sys.exit(str(error) or "stopped; the same command goes on where it was")
        if done:
            print(file=sys.stderr)

    def add(self, row):
        self.rows.append(row)
        self.rows.sort(key=lambda r: [sortable(r[name]) for name in self.keys])
        write_rows(self.path, self.rows, self.columns)


def sortable(value):
    try:
        return (0, float(value), "")
    except ValueError:
        return (1, 0.0, value)


def describe(row, keys):
    return ", ".join(f"{name} {row[name]}" for name in keys)


def machine():
    """What the results were made on."""
    model = "?"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "cores": os.cpu_count(), "system": " ".join(os.uname()[::2])}
