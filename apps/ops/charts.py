"""Bars without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CHART_WIDTH, CHART_HEIGHT = 600, 80
_GAP = 2


@dataclass(frozen=True)
class Bar:
    """A rectangle in the chart's units, from the top left, and the figure it stands for."""

    x: float
    y: float
    width: float
    height: float
    figure: float


def bars(figures: Sequence[float]) -> list[Bar]:
    """One bar a figure, the highest as high as the chart; a figure above 0 is always visible."""
    top = max(figures, default=0)
    width = CHART_WIDTH / max(1, len(figures))
    made = []
    for number, figure in enumerate(figures):
        height = max(2.0, CHART_HEIGHT * figure / top) if figure else 0.0
        made.append(
            Bar(number * width, CHART_HEIGHT - height, max(1.0, width - _GAP), height, figure)
        )
    return made
