"""Metrics of one question's rankings, as trec_eval computes them (through `ir_measures`).

nDCG takes a grade as its gain (linear, as trec_eval does) and is cut at 10; MRR is the reciprocal
rank of the first relevant unit within 10; success@k says whether one is among the first k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from apps.evals.matching import Found, Labelled, units_of

STAGES = ("bm25", "vectors", "fused", "reranked", "final")
# In the order tables show them.
METRICS = (
    *("recall@5", "recall@10", "recall@20", "recall@50", "recall@100"),
    *("ndcg@10", "mrr@10", "success@1", "success@5", "success@10"),
)
DEPTH = 100  # units of a ranking that are looked at
# Rank of the first relevant unit, beside the metrics of a stage; absent where none was found.
FIRST_RANK = "first_rank"


def measure(
    rankings: Mapping[str, Sequence[Found]], labels: Sequence[Labelled]
) -> dict[str, dict[str, float]]:
    """Of each stage's ranked chunks: METRICS by name, and FIRST_RANK.

    `labels` hold at least one of a grade above 0.
    """
    grades = {label.unit: label.grade for label in labels}
    units = {stage: units_of(ranked, labels)[:DEPTH] for stage, ranked in rankings.items()}
    return {
        stage: values | _first(units[stage], grades)
        for stage, values in _measure(units, grades).items()
    }


def _measure(
    units: Mapping[str, Sequence[str]], grades: Mapping[str, int]
) -> dict[str, dict[str, float]]:
    """The stages stand as so many queries with the same judgements: one call measures them all."""
    import ir_measures

    values = {stage: dict.fromkeys(METRICS, 0.0) for stage in units}
    measures = _measures()
    qrels = {stage: dict(grades) for stage in units}
    runs = {
        stage: {unit: float(len(ranked) - rank) for rank, unit in enumerate(ranked)}
        for stage, ranked in units.items()
        if ranked
    }
    for each in ir_measures.iter_calc(list(measures), qrels, runs):
        values[each.query_id][measures[each.measure]] = float(each.value)
    return values


@cache
def _measures() -> dict[Any, str]:
    """Imported when first used: half a second that only who measures has to spend."""
    from ir_measures import RR, R, Success, nDCG

    kinds = {"recall": R, "ndcg": nDCG, "mrr": RR, "success": Success}
    return {kinds[kind] @ int(depth): f"{kind}@{depth}" for kind, depth in _parts()}


def _parts() -> list[tuple[str, str]]:
    return [(kind, depth) for kind, _, depth in (name.partition("@") for name in METRICS)]


def _first(units: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    for rank, unit in enumerate(units, start=1):
        if grades.get(unit, 0) > 0:
            return {FIRST_RANK: rank}
    return {}
