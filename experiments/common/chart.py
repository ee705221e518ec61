"""chart.py: line charts as SVG, with nothing but the standard library.

A figure is a row of panels that share their vertical axis and their legend. Values below the vertical
range are triangles on its lower edge, so that nothing vanishes.
"""

import math
from dataclasses import dataclass, field
from html import escape

FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, FAINT, GRID = "#222222", "#666666", "#e4e4e4"
COLORS = {"adasum": "#0072b2", "average": "#d55e00", "sum": "#7a7a7a"}  # told apart by everyone
LEFT, TOP, BOTTOM, GAP = 62, 66, 78, 32
PANEL_H = 250


@dataclass
class Series:
    name: str
    points: list  # of (x, y)
    color: str
    dashes: str = ""
    markers: bool = True
    width: float = 2.2


@dataclass
class Panel:
    title: str
    series: list = field(default_factory=list)
    levels: list = field(default_factory=list)  # of (y, text): dashed lines across


@dataclass
class Axis:
    label: str
    low: float
    high: float
    ticks: list  # of (value, text)
    logarithmic: bool = False

    def part(self, value):
        """0 at the low end, 1 at the high one."""
        if self.logarithmic:
            value, low, high = (math.log(v) for v in (value, self.low, self.high))
            return (value - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def text(x, y, words, size=12, anchor="middle", color=INK, weight="normal", turn=""):
    turn = f" transform='rotate({turn} {x:.1f} {y:.1f})'" if turn else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' text-anchor='{anchor}' "
        f"fill='{color}' font-weight='{weight}'{turn}>{escape(words)}</text>"
    )


def line(x1, y1, x2, y2, color, width=1.0, dashes=""):
    dashes = f" stroke-dasharray='{dashes}'" if dashes else ""
    return (
        f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{color}' "
        f"stroke-width='{width}'{dashes}/>"
    )


class Figure:
    def __init__(self, title, x, y, panels, panel_width=250):
        self.title, self.x, self.y, self.panels, self.width = title, x, y, panels, panel_width

    def place(self, index, value_x, value_y):
        left = LEFT + index * (self.width + GAP)
        part = min(max(self.y.part(value_y), 0), 1)
        return left + self.x.part(value_x) * self.width, TOP + (1 - part) * PANEL_H

    def frame(self, index, panel):
        left = LEFT + index * (self.width + GAP)
        bottom = TOP + PANEL_H
        parts = [text(left + self.width / 2, TOP - 10, panel.title, 13, weight="bold")]
        for value, words in self.y.ticks:
            _, y = self.place(index, self.x.low, value)
            parts.append(line(left, y, left + self.width, y, GRID))
            if index == 0:
                parts.append(text(left - 7, y + 4, words, 11, "end", FAINT))
        for value, words in self.x.ticks:
            x, _ = self.place(index, value, self.y.low)
            parts.append(line(x, bottom, x, bottom + 4, FAINT))
            parts.append(text(x, bottom + 17, words, 11, color=FAINT))
        parts.append(line(left, bottom, left + self.width, bottom, FAINT))
        parts.append(text(left + self.width / 2, bottom + 36, self.x.label, 12, color=FAINT))
        for value, words in panel.levels:
            _, y = self.place(index, self.x.low, value)
            parts.append(line(left, y, left + self.width, y, INK, 1.2, "2 3"))
            parts.append(text(left + self.width - 3, y - 5, words, 11, "end"))
        return parts

    def strokes(self, points):
        """The points as connected runs. From one that lies below the range to the next that does
        there is nothing to see between them: no line is drawn."""
        runs, before = [], None
        for point in points:
            below = point[1] < self.y.low
            if before is None or (below and before):
                runs.append([])
            runs[-1].append(point)
            before = below
        return runs

    def curve(self, index, series):
        parts = []
        dashes = f" stroke-dasharray='{series.dashes}'" if series.dashes else ""
        for run in self.strokes(series.points):
            path = " ".join("{:.1f},{:.1f}".format(*self.place(index, x, y)) for x, y in run)
            parts.append(
                f"<polyline points='{path}' fill='none' stroke='{series.color}' "
                f"stroke-width='{series.width}' stroke-linejoin='round'{dashes}/>"
            )
        for point in series.points if series.markers else []:
            x, y = self.place(index, *point)
            if point[1] < self.y.low:
                shape = f"<path d='M{x - 5:.1f},{y - 5:.1f} h10 l-5,9 z' fill='{series.color}'/>"
            else:
                shape = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.4' fill='{series.color}'/>"
            parts.append(shape)
        return parts

    def legend(self):
        names = {}
        for panel in self.panels:
            for series in panel.series:
                names.setdefault(series.name, series)
        parts, x, y = [], LEFT, TOP + PANEL_H + 62
        for name, series in names.items():
            parts.append(line(x, y - 4, x + 26, y - 4, series.color, 2.6, series.dashes))
            parts.append(text(x + 32, y, name, 12, "start"))
            x += 56 + 7.2 * len(name)
        if any(y < self.y.low for panel in self.panels for s in panel.series for _, y in s.points):
            parts.append(f"<path d='M{x:.1f},{y - 9:.1f} h10 l-5,9 z' fill='{FAINT}'/>")
            parts.append(text(x + 16, y, f"below {self.y.low:g}", 12, "start"))
        return parts

    def svg(self):
        width = LEFT + len(self.panels) * (self.width + GAP)
        height = TOP + PANEL_H + BOTTOM
        parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
            f"viewBox='0 0 {width} {height}'>",
            f"<rect width='{width}' height='{height}' fill='white'/>",
            text(LEFT - 44, 24, self.title, 15, "start", weight="bold"),
            text(16, TOP + PANEL_H / 2, self.y.label, 12, color=FAINT, turn="-90"),
        ]
        for index, panel in enumerate(self.panels):
            parts += self.frame(index, panel)
            for series in panel.series:
                parts += self.curve(index, series)
        return "\n".join(parts + self.legend() + ["</svg>", ""])

    def save(self, path):
        with open(path, "w") as file:
            file.write(self.svg())
