"""Columns over an axis of money or of counts, without a script.

Places are in percent of the plot, so that a chart is as wide as its page while its words keep
their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Of the plot, in percent: room for what is said above the highest column, and for the dates.
TOP, BOTTOM = 12.0, 88.0
_COLUMN_SHARE = 0.76  # of its place; the rest is the gap
_LEAST_HEIGHT = 0.8  # so that a figure above 0 is always seen
_STUB_HEIGHT = 6.0
_X_TICKS = 5  # as many dates as a phone has room for
_NICE_STEPS = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True)
class Figure:
    """What one column stands for: parts from the bottom up, and the words for all of it."""

    parts: tuple[float, ...]
    words: str  # "3 November: $0.12, 14 answers"
    short: str  # what is shown above it when it is pointed at
    tick: str  # its place on the axis: "3 Nov"
    anchor: str = ""  # id of the line of the table that says the same
    incomplete: bool = False  # more belongs to it, but how much is not known


@dataclass(frozen=True)
class Piece:
    """One part of a column, in percent of the plot."""

    number: int  # from 1, from the bottom up: its filling
    y: float
    height: float


@dataclass(frozen=True)
class Column:
    """A column in percent of the plot."""

    x: float
    width: float
    middle: float
    slot_x: float
    slot_width: float
    pieces: tuple[Piece, ...]
    figure: Figure
    stub_y: float

    @property
    def side(self) -> str:
        """To which side its words run, so that they stay inside."""
        return "first" if self.middle < 15 else "last" if self.middle > 85 else ""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis, in percent of the plot, and the words at it."""

    at: float
    text: str
    side: str = ""


@dataclass(frozen=True)
class ColumnChart:
    """Columns from left to right, and the marks of both axes."""

    columns: list[Column]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    top: float = TOP
    bottom: float = BOTTOM
    stub_height: float = _STUB_HEIGHT


def columns(figures: Sequence[Figure], words: Callable[[float], str]) -> ColumnChart:
    """One column a figure; `words` says a value of the upright axis, which begins at 0."""
    top = _nice_top(max((sum(figure.parts) for figure in figures), default=0))
    slot = 100 / max(1, len(figures))
    made = [_column(number, figure, slot, top) for number, figure in enumerate(figures)]
    marks = (0, top / 2, top) if top else ()
    return ColumnChart(
        columns=made,
        x_ticks=[
            Tick(round(each.middle, 3), each.figure.tick, each.side) for each in _marked(made)
        ],
        y_ticks=[Tick(_down(value, top), words(value)) for value in marks],
    )


def _column(number: int, figure: Figure, slot: float, top: float) -> Column:
    pieces, below = [], 0.0
    for part_number, part in enumerate(figure.parts, start=1):
        if part:
            y = min(_down(below + part, top), _down(below, top) - _LEAST_HEIGHT)
            height = round(_down(below, top) - y, 3)
            pieces.append(Piece(part_number, round(y, 3), height))
        below += part
    highest = min((piece.y for piece in pieces), default=BOTTOM)
    return Column(
        x=round(slot * (number + (1 - _COLUMN_SHARE) / 2), 3),
        width=round(slot * _COLUMN_SHARE, 3),
        middle=round(slot * (number + 0.5), 3),
        slot_x=round(slot * number, 3),
        slot_width=round(slot, 3),
        pieces=tuple(pieces),
        figure=figure,
        stub_y=round(max(highest - _STUB_HEIGHT, 0.0), 3),
    )


def _down(value: float, top: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 3) if top else BOTTOM


def _nice_top(highest: float) -> float:
    """The least round figure that is not below it, and whose half is round too; 0 of nothing."""
    if highest <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in _NICE_STEPS if step * power >= highest * 0.999999)


def _marked(made: Sequence[Column]) -> list[Column]:
    """Evenly spread ones, the first and the last among them."""
    if len(made) <= _X_TICKS:
        return list(made)
    step = (len(made) - 1) / (_X_TICKS - 1)
    return [made[round(step * number)] for number in range(_X_TICKS)]
