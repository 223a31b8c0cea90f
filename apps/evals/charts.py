"""Lines without a script.

Places are in percent of the plot, so that a chart is as wide as its page while its words keep
their size; a line is drawn as the pieces between neighbouring points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils import timezone

# Of the plot, in percent: room for the outermost points and for the words of the axes.
LEFT, RIGHT, TOP, BOTTOM = 7.0, 97.0, 6.0, 88.0
_TIME_TICKS = 4  # as many as a phone has room for


@dataclass(frozen=True)
class Reading:
    """One figure: where it belongs, and what is said of it when it is pointed at."""

    x: float
    y: float
    title: str
    href: str = ""
    # The ends of its interval along y, where it has one.
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Readings that one line joins, by x."""

    name: str
    readings: Sequence[Reading]


@dataclass(frozen=True)
class Tick:
    """A mark of an axis, in percent of the plot, and the words at it."""

    at: float
    text: str


@dataclass(frozen=True)
class Point:
    """A reading on the plot; `low` and `high`, in percent too, are the ends of its interval."""

    x: float
    y: float
    title: str
    href: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Piece:
    """A straight piece of a line."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class Line:
    """A series on the plot. `number`, from 1, chooses its colour, dashes and marks."""

    name: str
    number: int
    points: list[Point]

    @property
    def pieces(self) -> Iterator[Piece]:
        for start, end in zip(self.points, self.points[1:], strict=False):
            yield Piece(start.x, start.y, end.x, end.y)


@dataclass(frozen=True)
class Band:
    """A stretch of x, in percent of the plot: where a value lies that is not known exactly."""

    x: float
    width: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Lines, the marks of both axes, upright lines that mark a value of x, lines across that mark
    one of y, and stretches of x."""

    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Tick] = field(default_factory=list)
    levels: list[Tick] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    top: float = TOP
    bottom: float = BOTTOM

    @property
    def height(self) -> float:
        return self.bottom - self.top


@dataclass(frozen=True)
class Axis:
    """What an axis runs over, and where it is marked."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where `value` is between the ends, 0 to 1; in the middle where there is one value."""
        scale: Callable[[float], float] = math.log if self.logarithmic else float
        low, high = scale(self.low), scale(self.high)
        return (scale(value) - low) / (high - low) if high > low else 0.5


def draw(
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    marks: Sequence[tuple[float, str]] = (),
    levels: Sequence[tuple[float, str]] = (),
    bands: Sequence[tuple[float, float, str]] = (),
) -> Chart:
    """The series as lines over two axes.

    `marks` are values of x with words, `levels` of y, `bands` stretches of x: (from, to, words).
    """

    def across(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * x.share(value), 2)

    def down(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * y.share(value), 2)

    def line(number: int, each: Series) -> Line:
        ordered = sorted(each.readings, key=lambda reading: reading.x)
        points = [Point(across(r.x), down(r.y), r.title, r.href, *ends(r)) for r in ordered]
        return Line(each.name, number, points)

    def ends(reading: Reading) -> tuple[float, float] | tuple[None, None]:
        if reading.low is None or reading.high is None:
            return None, None
        return down(reading.low), down(reading.high)

    return Chart(
        lines=[line(number, each) for number, each in enumerate(series, start=1)],
        x_ticks=[Tick(across(value), text) for value, text in x.ticks],
        y_ticks=[Tick(down(value), text) for value, text in y.ticks],
        marks=[Tick(across(value), text) for value, text in marks],
        levels=[Tick(down(value), text) for value, text in levels],
        bands=[
            Band(across(low), round(across(high) - across(low), 2), text)
            for low, high, text in bands
        ],
    )


def share_axis(values: Sequence[float] = (0.0, 1.0)) -> Axis:
    """An axis for shares, 0 to 1, that ends at tenths around `values` and says where it begins.

    Never shorter than two tenths: small noise must not look like a fall.
    """
    low = math.floor(min(values, default=0.0) * 10 + 1e-9)
    high = math.ceil(max(values, default=1.0) * 10 - 1e-9)
    low = max(0, min(low, high - 2))
    high = max(high, low + 2)
    steps = range(low, high + 1, 1 if high - low <= 5 else 2)
    return Axis(low / 10, high / 10, [(step / 10, f"{step / 10:.1f}") for step in steps])


def time_axis(times: Sequence[datetime]) -> Axis:
    """An axis of seconds since the epoch from the first time to the last, marked by local dates.

    `times` are aware and at least one; within three days the marks have hours.
    """
    first, last = min(times), max(times)
    form = "%d %b" if last - first > timedelta(days=3) else "%d %b %H:%M"
    steps = range(_TIME_TICKS) if last > first else range(1)
    marks = [first + (last - first) * step / (_TIME_TICKS - 1) for step in steps]
    words = {f"{timezone.localtime(mark):{form}}": mark.timestamp() for mark in reversed(marks)}
    return Axis(first.timestamp(), last.timestamp(), [(at, text) for text, at in words.items()])
