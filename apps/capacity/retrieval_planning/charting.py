"""p95 of a search against passages: what was measured, the line, its band, and the promise."""

from __future__ import annotations

import math

from apps.capacity.retrieval_planning.measured import Curves
from apps.capacity.retrieval_planning.planning import Plan
from apps.evals.charts import Axis, Chart, Reading, Series, draw

_STEPS = 8


def latency_chart(plan: Plan, curves: Curves) -> Chart | None:
    """None where there is no line to be drawn."""
    latency = plan.latency
    if latency is None:
        return None
    line = latency.line
    last = min(max(plan.wish.largest, line.largest) * 1.5, line.trusted_to)
    first = float(line.smallest)
    sizes = [first * (last / first) ** (step / _STEPS) for step in range(_STEPS + 1)]
    measured = [
        Reading(
            point.passages,
            point.p95_ms,
            f"{point.passages:,} passages: {point.p95_ms:.3g} ms (p95 of {point.searches})",
        )
        for point in curves.points(latency.way)
    ]
    drawn = [Reading(n, line.at(n), f"{n:,.0f} passages: {line.at(n):.3g} ms") for n in sizes]
    low, high = (
        [
            Reading(n, line.band(n)[side], f"{n:,.0f} passages: {line.band(n)[side]:.3g} ms")
            for n in sizes
        ]
        for side in (0, 1)
    )
    top = max(latency.promise_ms, *(reading.y for reading in (*high, *measured))) * 1.1
    here = plan.wish.largest
    return draw(
        [
            Series("Measured", measured),
            Series("Line", drawn),
            Series("Low end of its band", low),
            Series("High end", high),
        ],
        x=Axis(first, last, _decades(first, last), logarithmic=True),
        y=Axis(0.0, top, _ticks(top)),
        marks=[(here, "Planned")] if first <= here <= last else [],
        levels=[(latency.promise_ms, "Promise")],
        bands=[(line.largest, last, "Extrapolated")] if last > line.largest else [],
    )  # fmt: skip


def _decades(first: float, last: float) -> list[tuple[float, str]]:
    whole = range(math.ceil(math.log10(first)), math.floor(math.log10(last)) + 1)
    marks = [float(10**power) for power in whole] or [first, last]
    return [(mark, _short(mark)) for mark in marks]


def _short(count: float) -> str:
    for size, name in ((10**9, " billion"), (10**6, " million"), (1000, ",000")):
        if count >= size:
            return f"{count / size:.4g}{name}"
    return f"{count:.0f}"


def _ticks(top: float) -> list[tuple[float, str]]:
    step = 10 ** math.floor(math.log10(top))
    step = step / 2 if top / step < 3 else step
    return [(step * n, f"{step * n:g} ms") for n in range(int(top / step) + 1)]
