"""A run's figures, arranged as tables and charts. Nothing here asks the database."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.evals.charts import Axis, Chart, Reading, Series, draw
from apps.evals.figures import HOPS
from apps.evals.metrics import METRICS, STAGES

HEADLINES = ("ndcg@10", "recall@10", "recall@50")

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Headline:
    """A mean over all questions of a run, after its last stage, with its 95 % interval."""

    metric: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MetricRow:
    """Means in the order of the table's metrics; None where the run has none."""

    name: str
    questions: int
    values: list[float | None]


@dataclass(frozen=True)
class HopRow:
    """What a hop took, over the questions that it worked for."""

    name: str
    count: int
    p50_ms: float | None
    p95_ms: float | None
    skipped: int


@dataclass(frozen=True)
class Missed:
    """Where the passages that answer were lost, in questions."""

    found: int
    placed_badly: int
    first_stage: int

    @property
    def total(self) -> int:
        return self.found + self.placed_badly + self.first_stage


@dataclass(frozen=True)
class Refusal:
    """What a limit of relevance does: shares of the questions that are refused below it."""

    limit: float
    answerable: float
    unanswerable: float

    @property
    def gap(self) -> float:
        return self.unanswerable - self.answerable


def headlines(figures: Figures) -> list[Headline]:
    """The metrics that a set is watched by."""
    final = figures.get("stages", {}).get("final", {})
    intervals = figures.get("intervals", {})
    return [
        Headline(name, final.get(name), *(intervals.get(name) or (None, None)))
        for name in HEADLINES
    ]


def stage_rows(figures: Figures) -> list[MetricRow]:
    """One row a stage that ran, in the order of the walk."""
    stages = figures.get("stages", {})
    questions = figures.get("questions", 0)
    return [_row(name, questions, stages[name]) for name in STAGES if name in stages]


def slice_rows(figures: Figures) -> list[MetricRow]:
    """One row a slice, the worst nDCG first."""
    slices: Mapping[str, Figures] = figures.get("slices", {})
    ordered = sorted(slices, key=lambda name: (slices[name].get("ndcg@10", 0.0), name))
    return [_row(name, slices[name].get("questions", 0), slices[name]) for name in ordered]


def hop_rows(figures: Figures) -> list[HopRow]:
    """One row a hop, in the order of the walk."""
    hops: Mapping[str, Figures] = figures.get("hops", {})
    walk = [*(name for name in HOPS if name in hops), *(name for name in hops if name not in HOPS)]
    return [
        HopRow(
            name,
            hop.get("count", 0),
            hop.get("p50_ms"),
            hop.get("p95_ms"),
            hop.get("skipped", 0),
        )
        for name, hop in ((name, hops[name]) for name in walk)
    ]


def missed(figures: Figures) -> Missed | None:
    """None where no question has an answer."""
    counts = figures.get("missed")
    if not counts:
        return None
    found = Missed(
        counts.get("found", 0), counts.get("placed_badly", 0), counts.get("first_stage", 0)
    )
    return found if found.total else None


def refusals(figures: Figures) -> list[Refusal]:
    """The curve by limit; empty where the set has no questions that cannot be answered."""
    rows = [Refusal(*map(float, row)) for row in figures.get("refusals", [])]
    return sorted(rows, key=lambda row: row.limit)


def refusals_to_choose(curve: Sequence[Refusal], in_force: float) -> list[Refusal]:
    """At most one limit a hundredth, with what the one in force does among them."""
    chosen = {round(row.limit, 2): row for row in reversed(curve)}
    if nearest := refusal_at(curve, in_force):
        chosen[round(in_force, 2)] = Refusal(in_force, nearest.answerable, nearest.unanswerable)
    return [chosen[limit] for limit in sorted(chosen)]


def refusal_at(curve: Sequence[Refusal], limit: float) -> Refusal | None:
    """The curve's row that holds at `limit`: the last one that is not above it."""
    below = [row for row in curve if row.limit <= limit + 1e-9]
    return below[-1] if below else next(iter(curve), None)


def suggested_limit(curve: Sequence[Refusal], in_force: float) -> float:
    """Where the two shares lie furthest apart; the middle where that is a stretch of limits.

    The limit in force where no limit tells the two kinds of questions apart.
    """
    widest = max((row.gap for row in curve), default=0.0)
    if widest <= 0:
        return in_force
    best = [row.limit for row in curve if row.gap >= widest - 1e-9]
    return best[len(best) // 2]


def refusal_chart(curve: Sequence[Refusal], in_force: float) -> Chart | None:
    """Shares refused over the limit, with the limit in force marked."""
    if not curve:
        return None
    ticks = [(step / 5, f"{step / 5:.1f}") for step in range(6)]
    share = [(step / 4, f"{25 * step} %") for step in range(5)]

    def line(name: str, values: Sequence[tuple[float, float]]) -> Series:
        readings = [
            Reading(limit, value, f"Limit {limit:.2f}: {100 * value:.1f} % {name}")
            for limit, value in values
        ]
        return Series(name[:1].upper() + name[1:], readings)

    low, high = min(0.0, curve[0].limit), max(1.0, curve[-1].limit)
    return draw(
        [
            line("of the unanswerable refused", [(row.limit, row.unanswerable) for row in curve]),
            line("of the answerable refused", [(row.limit, row.answerable) for row in curve]),
        ],
        x=Axis(low, high, ticks),
        y=Axis(0.0, 1.0, share),
        marks=[(in_force, f"in force: {in_force:.2f}")],
    )


def _row(name: str, questions: int, values: Figures) -> MetricRow:
    return MetricRow(name, questions, [_number(values.get(metric)) for metric in METRICS])


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]
