"""A curve's points as charts: what they find across, what they cost upwards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from apps.evals.charts import Axis, Chart, Reading, Series, draw
from apps.evals.tuning.proposing import PIPELINE, VECTORS
from apps.evals.tuning.wording import label_of

Point = Mapping[str, Any]
# Widths that a tick of shares may have, narrowest first, and ticks at most.
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_TICKS_MAX = 6
_TIME_TICKS_MIN = 3
_LEAST_MS = 0.01  # a logarithmic axis has no zero


def recall_chart(points: Sequence[Point], *, goal: float, k: int) -> Chart | None:
    """Recall@k against p95, a line for each HNSW index; the goal is marked."""
    found = [point for point in points if point["kind"] == VECTORS and "recall" in point]
    if not found:
        return None
    lines = {(point["storage"], point["m"], point["ef_construction"]) for point in found}
    series = [
        Series(
            f"{storage}, m {m}, ef_construction {ef}",
            [
                _reading(point, "recall", f"recall@{k}")
                for point in found
                if (point["storage"], point["m"], point["ef_construction"]) == (storage, m, ef)
            ],
        )
        for storage, m, ef in sorted(lines, key=lambda line: (line[0] != "halfvec", line))
    ]
    axis = fine_axis([*(point["recall"] for point in found), goal])
    return draw(series, x=axis, y=latency_axis(found), marks=[(goal, f"goal {goal:g}")])


def depth_chart(points: Sequence[Point]) -> Chart | None:
    """nDCG@10 against p95 of the whole search, a line for each number of candidates a leg."""
    found = [point for point in points if point["kind"] == PIPELINE and "ndcg_10" in point]
    if not found:
        return None
    series = [
        Series(
            f"{leg} candidates of each leg",
            [_reading(p, "ndcg_10", "nDCG@10") for p in found if p["leg_candidates"] == leg],
        )
        for leg in sorted({point["leg_candidates"] for point in found})
    ]
    return draw(series, x=fine_axis([p["ndcg_10"] for p in found]), y=latency_axis(found))


def fine_axis(shares: Sequence[float]) -> Axis:
    """An axis around shares that may lie close together, such as .97 to 1, with few ticks."""
    low, high = min(shares), max(shares)
    step = next((s for s in _STEPS if (high - low) / s <= _TICKS_MAX - 2), _STEPS[-1])
    first = max(0, math.floor(low / step + 1e-9))
    last = min(round(1 / step), max(first + 2, math.ceil(high / step - 1e-9)))
    first = min(first, last - 2)
    digits = 3 if step < 0.01 else 2
    ticks = [(n * step, f"{n * step:.{digits}f}") for n in range(first, last + 1)]
    return Axis(first * step, last * step, ticks)


def latency_axis(points: Sequence[Point]) -> Axis:
    """Milliseconds, logarithmic, marked at 1, 2 and 5 of each power of ten, or closer."""
    low = min(max(point["p95_ms"], _LEAST_MS) for point in points) / 1.3
    high = max(point["p95_ms"] for point in points) * 1.3
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks: list[float] = []
    for times in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        each = (number * 10.0**power for power in powers for number in times)
        marks = [mark for mark in each if low <= mark <= high]
        if len(marks) >= _TIME_TICKS_MIN:
            break
    return Axis(low, high, [(mark, f"{mark:g} ms") for mark in marks], logarithmic=True)


def _reading(point: Point, share: str, name: str) -> Reading:
    times = f"p50 {point['p50_ms']:.1f} ms, p95 {point['p95_ms']:.1f} ms"
    in_force = " (in force)" if point.get("in_force") else ""
    title = f"{label_of(point)}{in_force}: {name} {point[share]:.3f}, {times}"
    return Reading(point[share], max(point["p95_ms"], _LEAST_MS), title)
