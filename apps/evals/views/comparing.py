"""Two runs side by side, down to the passages of one question."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.evals.comparing import SORTED_BY, Changed, Comparison, compare
from apps.evals.metrics import METRICS
from apps.evals.models import EvalRun
from apps.evals.selectors import runs
from apps.evals.selectors.rankings import pair_labels, read_question
from apps.evals.views.runs import find_result, find_run
from apps.tenants.access import Right, TenantRequest, tenant_page

CHANGED_A_PAGE = 50
# Of the stages before the last: found at all, found early, placed well.
STAGE_METRICS = ("recall@100", "recall@10", "ndcg@10")


@dataclass(frozen=True)
class ChangedRow:
    """A question that the runs answered differently, with its text."""

    text: str
    changed: Changed

    @property
    def before(self) -> float:
        return self.changed.before[SORTED_BY]

    @property
    def after(self) -> float:
        return self.changed.after[SORTED_BY]


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def compare_runs(
    request: TenantRequest, run_id: uuid.UUID, other_run_id: uuid.UUID
) -> HttpResponse:
    """What became of the metrics from the first run to the second, and which questions changed."""
    before, after = find_run(request.access, run_id), find_run(request.access, other_run_id)
    context: dict[str, Any] = {"before": before, "after": after}
    if _has_figures(before) and _has_figures(after):
        context |= _comparison(request, compare(before, after))
    return render(request, "evals/compare.html", context)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def compare_question(
    request: TenantRequest, run_id: uuid.UUID, other_run_id: uuid.UUID, question_id: uuid.UUID
) -> HttpResponse:
    """One question in both runs: where each label was, and the passages with their scores."""
    before, after = find_run(request.access, run_id), find_run(request.access, other_run_id)
    old = read_question(request.access, before, find_result(before, question_id))
    new = read_question(request.access, after, find_result(after, question_id))
    stages = [stage for stage in old.stages if stage in new.stages]
    context = {
        "before": before,
        "after": after,
        "question": new.question,
        "sides": [("Before", before, old), ("After", after, new)],
        "stages": stages,
        "labels": pair_labels(old, new, stages),
        "pairs": [(stage, old.list_of(stage), new.list_of(stage)) for stage in stages[::-1]],
    }
    return render(request, "evals/compare_question.html", context)


def _has_figures(run: EvalRun) -> bool:
    return run.state == EvalRun.State.DONE and bool(run.figures)


def _comparison(request: TenantRequest, comparison: Comparison) -> dict[str, Any]:
    page = Paginator(comparison.changed, CHANGED_A_PAGE).get_page(request.GET.get("page"))
    texts = runs.question_texts(
        request.access.tenant.id, [each.question_id for each in page.object_list]
    )
    return {
        "comparison": comparison,
        "metrics": [(name, comparison.difference(name)) for name in METRICS],
        "stages": _stages(comparison),
        "page": page,
        "changed": [ChangedRow(texts.get(each.question_id, ""), each) for each in page.object_list],
        "better": sum(each.change > 0 for each in comparison.changed),
        "worse": sum(each.change < 0 for each in comparison.changed),
    }


def _stages(comparison: Comparison) -> Sequence[tuple[str, list[Any]]]:
    return [
        (stage, [(name, differences[name]) for name in STAGE_METRICS])
        for stage, differences in comparison.differences.items()
    ]
