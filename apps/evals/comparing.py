"""Two runs side by side: differences with intervals, and the questions that changed.

Only questions that both runs asked count, and of those only such whose text and labels were the
same both times: anything else would be a difference of the set, not of the search.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.evals.bootstrap import Values, mean_intervals
from apps.evals.configuration import changes
from apps.evals.metrics import FIRST_RANK, METRICS
from apps.evals.models import EvalRun, RunQuestion
from apps.tenants.scope import tenant_scope

# What a question is sorted by: the metric that ranking is judged by.
SORTED_BY = "ndcg@10"


@dataclass(frozen=True)
class Difference:
    """Of one metric's means, after less before; `low` to `high` is its 95 % interval."""

    before: float
    after: float
    low: float
    high: float

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def beyond_chance(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def fell(self) -> bool:
        return self.high < 0

    @property
    def rose(self) -> bool:
        return self.low > 0


@dataclass(frozen=True)
class Changed:
    """A question that the two runs answered differently, at the last stage both measured."""

    question_id: uuid.UUID
    before: Mapping[str, float]
    after: Mapping[str, float]

    @property
    def change(self) -> float:
        return self.after[SORTED_BY] - self.before[SORTED_BY]

    @property
    def rank_before(self) -> int | None:
        """Of the first relevant passage; None: not found."""
        return _rank(self.before)

    @property
    def rank_after(self) -> int | None:
        return _rank(self.after)


@dataclass(frozen=True)
class Comparison:
    """What became of the metrics from one run to another."""

    questions: int  # compared: asked in both runs, with the same labels
    only_before: int
    only_after: int
    relabelled: int  # asked in both, but the text or the labels have changed in between
    differences: Mapping[str, Mapping[str, Difference]]  # by stage, by metric
    changed: Sequence[Changed]  # the largest change first; where nothing changed, left out
    configuration: Mapping[str, tuple[Any, Any]]  # what differs: before, after

    @property
    def is_whole(self) -> bool:
        """Whether both runs asked just the same."""
        return not (self.only_before or self.only_after or self.relabelled)

    @property
    def last_stage(self) -> str:
        return list(self.differences)[-1] if self.differences else ""

    def difference(self, metric: str) -> Difference | None:
        """At the last stage; None where nothing could be compared."""
        return self.differences[self.last_stage][metric] if self.differences else None


Metrics = Mapping[str, Mapping[str, float]]


def compare(before: EvalRun, after: EvalRun, *, seed: int = 0) -> Comparison:
    """Paired by question; 2,000 resamples, drawn by `seed`. Both runs are of one tenant."""
    with tenant_scope(before.tenant_id):
        old, new = (_read(before.tenant_id, run) for run in (before, after))
    both = sorted(old.keys() & new.keys())
    alike = [each for each in both if old[each][0] == new[each][0]]
    pairs = {each: (old[each][1], new[each][1]) for each in alike}
    stages = [each for each in before.configuration["stages"] if each in _stages(after)]
    return Comparison(
        questions=len(pairs),
        only_before=len(old) - len(both),
        only_after=len(new) - len(both),
        relabelled=len(both) - len(alike),
        differences=_differences(list(pairs.values()), stages, seed) if pairs and stages else {},
        changed=_changed(pairs, stages[-1]) if stages else [],
        configuration=changes(before.configuration, after.configuration),
    )


def _stages(run: EvalRun) -> list[str]:
    stages: list[str] = run.configuration["stages"]
    return stages


def _read(tenant_id: uuid.UUID, run: EvalRun) -> dict[uuid.UUID, tuple[str, Metrics]]:
    """Fingerprint and metrics of the questions that have an answer."""
    rows = RunQuestion.objects.filter(tenant_id=tenant_id, run=run).exclude(metrics={})
    return {
        row[0]: (row[1], row[2])
        for row in rows.values_list("question_id", "fingerprint", "metrics")
    }


def _differences(
    pairs: Sequence[tuple[Metrics, Metrics]], stages: Sequence[str], seed: int
) -> dict[str, dict[str, Difference]]:
    before, after = (_values([pair[side] for pair in pairs], stages) for side in (0, 1))
    intervals = mean_intervals(after - before, seed=seed)
    columns = [(stage, metric) for stage in stages for metric in METRICS]
    found: dict[str, dict[str, Difference]] = {stage: {} for stage in stages}
    for column, (stage, metric) in enumerate(columns):
        means = float(before[:, column].mean()), float(after[:, column].mean())
        found[stage][metric] = Difference(*means, *intervals[column])
    return found


def _values(results: Sequence[Metrics], stages: Sequence[str]) -> Values:
    """Questions by (stage, metric)."""
    return np.array(
        [[each[stage][metric] for stage in stages for metric in METRICS] for each in results],
        dtype=np.float64,
    )


def _changed(pairs: Mapping[uuid.UUID, tuple[Metrics, Metrics]], stage: str) -> list[Changed]:
    both = [Changed(each, old[stage], new[stage]) for each, (old, new) in pairs.items()]
    differ = [each for each in both if each.before != each.after]
    return sorted(differ, key=lambda each: (-abs(each.change), str(each.question_id)))


def _rank(metrics: Mapping[str, float]) -> int | None:
    rank = metrics.get(FIRST_RANK)
    return None if rank is None else int(rank)
