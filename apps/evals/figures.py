"""A run's figures, from what it found for each question. Numbers and identifiers only."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.evals.bootstrap import mean_intervals
from apps.evals.metrics import METRICS
from apps.evals.models import EvalRun, LabelledQuestion, RunQuestion
from apps.retrieval.relevance import refusal_curve

HOPS = ("embed", "search", "rerank")


@dataclass(frozen=True)
class Result:
    """A question's result, as far as figures need it."""

    metrics: Mapping[str, Mapping[str, float]]  # empty: it has no answer
    relevance: float
    rows: int
    hops: Mapping[str, float]
    notices: Sequence[str]
    unanswerable: bool
    slices: Sequence[str]

    @property
    def is_answerable(self) -> bool:
        return bool(self.metrics)


def figures_of(run: EvalRun) -> dict[str, Any]:
    """Call inside the tenant's scope, once every question has been asked."""
    return summarise(
        _read(run),
        stages=run.configuration["stages"],
        limit=min(run.configuration["limit"], run.configuration["collection"]["chunks"]),
        seed=run.seed,
    )


def summarise(
    results: Sequence[Result], *, stages: Sequence[str], limit: int, seed: int
) -> dict[str, Any]:
    """Means, intervals and counts; `limit` is how many passages each question could be given.

    Questions whose labels have all gone count as `lost`, and for nothing else.
    """
    answerable = [each for each in results if each.is_answerable]
    unanswerable = [each for each in results if not each.is_answerable and each.unanswerable]
    return {
        "questions": len(answerable),
        "unanswerable": len(unanswerable),
        "lost": len(results) - len(answerable) - len(unanswerable),
        "stages": {stage: _means(answerable, stage) for stage in stages} if answerable else {},
        "intervals": _intervals(answerable, stages[-1], seed),
        "slices": _slices(answerable, stages[-1]),
        "hops": {hop: _latency(results, hop) for hop in HOPS},
        "rows": _rows(results, limit),
        "missed": _missed(answerable, stages),
        "refusals": _refusals(answerable, unanswerable),
        "degraded": dict(Counter(code for each in results for code in each.notices)),
    }


def _read(run: EvalRun) -> list[Result]:
    rows = RunQuestion.objects.filter(tenant_id=run.tenant_id, run=run).values_list(
        "question_id", "metrics", "relevance", "rows", "hops", "notices"
    )
    asked = _asked(run)
    return [Result(*row[1:], *asked[row[0]]) for row in rows if row[0] in asked]


def _asked(run: EvalRun) -> dict[uuid.UUID, tuple[bool, list[str]]]:
    questions = LabelledQuestion.objects.filter(
        tenant_id=run.tenant_id, labelled_set_id=run.labelled_set_id
    )
    return {
        row[0]: (row[1], row[2]) for row in questions.values_list("id", "unanswerable", "slices")
    }


def _means(results: Sequence[Result], stage: str) -> dict[str, float]:
    means = _values(results, stage).mean(axis=0)
    return dict(zip(METRICS, means.tolist(), strict=True))


def _values(results: Sequence[Result], stage: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Questions by METRICS."""
    return np.array(
        [[each.metrics[stage][name] for name in METRICS] for each in results], dtype=np.float64
    )


def _intervals(results: Sequence[Result], stage: str, seed: int) -> dict[str, list[float]]:
    if not results:
        return {}
    intervals = mean_intervals(_values(results, stage), seed=seed)
    return {name: list(ends) for name, ends in zip(METRICS, intervals, strict=True)}


def _slices(results: Sequence[Result], stage: str) -> dict[str, dict[str, float]]:
    names = sorted({name for each in results for name in each.slices})
    by_slice = {name: [each for each in results if name in each.slices] for name in names}
    return {name: {"questions": len(some)} | _means(some, stage) for name, some in by_slice.items()}


def _latency(results: Sequence[Result], hop: str) -> dict[str, float | int | None]:
    times = [each.hops[hop] for each in results if hop in each.hops]
    p50, p95 = np.percentile(times, [50, 95]).tolist() if times else (None, None)
    return {"count": len(times), "p50_ms": p50, "p95_ms": p95, "skipped": len(results) - len(times)}


def _rows(results: Sequence[Result], limit: int) -> dict[str, float | int]:
    rows = [each.rows for each in results]
    return {
        "min": min(rows, default=0),
        "mean": sum(rows) / len(rows) if rows else 0.0,
        "short": sum(count < limit for count in rows),
    }


def _missed(results: Sequence[Result], stages: Sequence[str]) -> dict[str, int]:
    """Found: among the first ten in the end. Placed badly: a candidate, but not among them."""
    last, first = stages[-1], "fused" if "fused" in stages else stages[0]
    found = sum(each.metrics[last]["success@10"] > 0 for each in results)
    known = sum(
        each.metrics[first]["recall@100"] > 0 or each.metrics[last]["success@10"] > 0
        for each in results
    )
    return {"first_stage": len(results) - known, "placed_badly": known - found, "found": found}


def _refusals(
    answerable: Sequence[Result], unanswerable: Sequence[Result]
) -> list[tuple[float, float, float]]:
    if not answerable or not unanswerable:
        return []
    return list(
        refusal_curve(
            [each.relevance for each in answerable], [each.relevance for each in unanswerable]
        )
    )
