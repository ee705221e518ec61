"""How far a training is: a bar that is drawn over itself where stderr is a terminal, lines on stdout
elsewhere, nothing on ranks other than 0. The launcher passes output on through a pipe, so there the bar
must be asked for: ``rueda run --no-prefix … --progress bar``."""

from __future__ import annotations

import math
import statistics
import sys
import time
from typing import List

MODES = ["auto", "bar", "lines", "none"]
CELLS = 8  # with them the bar stays below 80 columns
CLEAR = "\033[K"


class Progress:
    """Counts steps and the seconds spent in them."""

    def __init__(self, mode: str, rank: int, workers: int, epochs: int, steps: int, items: str = "images") -> None:
        if mode == "auto":
            mode = "bar" if sys.stderr.isatty() else "lines"
        self.mode = mode if rank == 0 else "none"
        self.workers, self.epochs, self.steps, self.items = workers, epochs, steps, items
        self.step = self.done = 0
        self.seconds, self._started, self._last = 0.0, math.nan, math.nan
        self._step_seconds: List[float] = []
        self._drawn = False  # a bar stands where the next line will

    def start(self) -> None:
        """The clock runs from now on."""
        self._started = self._last = time.perf_counter()

    def stop(self) -> None:
        """What follows, such as a test, does not count."""
        self.seconds += time.perf_counter() - self._started

    def advance(self, items: int) -> None:
        """A step was done, with so many items on all ranks together."""
        self.step += 1
        self.done += items
        now = time.perf_counter()
        self._step_seconds.append(now - self._last)
        self._last = now

    @property
    def elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self._started

    @property
    def speed(self) -> float:
        """Items a second, over all ranks."""
        return self.done / self.seconds if self.seconds else math.nan

    def describe_steps(self) -> str:
        """How long a step takes here; the fastest tenth hardly knows what else the machine does."""
        in_order = sorted(1000 * seconds for seconds in self._step_seconds)
        return f"{statistics.median(in_order):.2f} ms median, {in_order[len(in_order) // 10]:.2f} ms fastest tenth"

    def show(self, epoch: int, loss: float, accuracy: float = math.nan, orthogonality: float = math.nan) -> None:
        """Draws the bar, or writes a line."""
        if self.mode == "none":
            return
        seconds, part = self.elapsed, self.step / self.steps
        words = [f"loss {loss:.3f}"]
        if not math.isnan(accuracy):
            words.append(f"{100 * accuracy:.2f}%")
        if not math.isnan(orthogonality):
            words.append(f"{orthogonality * self.workers:.1f} of {self.workers} add up ({orthogonality:.2f})")
        if self.mode == "bar":
            left = round(seconds / part * (1 - part))
            cells = "█" * round(part * CELLS)
            words = [f"{left // 60}:{left % 60:02d} left", f"{self.done / seconds:.0f}/s", *words]
            text = f"{epoch}/{self.epochs} {cells:·<{CELLS}} {'  '.join(words)}{CLEAR}"
            print(text, end="\r", file=sys.stderr, flush=True)
            self._drawn = True
        else:
            words = [f"{self.done / seconds:.0f} {self.items}/s", *words]
            print(f"epoch {epoch}/{self.epochs}, step {self.step}/{self.steps}: {', '.join(words)}", flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._drawn:
            print(CLEAR, end="", file=sys.stderr, flush=True)
            self._drawn = False
        if self.mode != "none":
            print(text, flush=True)
