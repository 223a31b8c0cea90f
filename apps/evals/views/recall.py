"""The live recall page: how much of what exact search finds, real searches found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.evals.charts import Chart, Reading, Series, draw, time_axis
from apps.evals.tuning.charting import fine_axis
from apps.retrieval.recall import RecallDay, recall_over_time
from apps.tenants.access import Right, TenantRequest, tenant_page

DAYS = (7, 30, 90)
DEFAULT_DAYS = 30
PLANS = {"hnsw": "HNSW index", "exact": "Exact search"}


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def recall(request: TenantRequest) -> HttpResponse:
    """Recall by day and plan, with the rows found and the time both ways took."""
    asked = request.GET.get("days", "")
    days = int(asked) if asked in map(str, DAYS) else DEFAULT_DAYS
    found = recall_over_time(request.access.tenant.id, timezone.now() - timedelta(days=days))
    context = {
        "days": days,
        "choices": DAYS,
        "rows": [(PLANS.get(each.plan, each.plan), each) for each in reversed(found)],
        "samples": sum(each.samples for each in found),
        "chart": _recall_chart(found),
        "share": settings.RECALL_SAMPLE_SHARE,
        "line": settings.HNSW_ABOVE_CHUNKS,
    }
    return render(request, "evals/recall.html", context)


def _recall_chart(found: Sequence[RecallDay]) -> Chart | None:
    """A line for each plan; nothing where there is one day alone."""
    if len({each.day for each in found}) < 2:
        return None
    plans = [plan for plan in PLANS if any(each.plan == plan for each in found)]
    return draw(
        [_line(found, plan, lambda each: each.recall_10) for plan in plans],
        x=time_axis([_noon(each) for each in found]),
        y=fine_axis([*(each.recall_10 for each in found), 1.0]),
    )


def _line(found: Sequence[RecallDay], plan: str, value: Callable[[RecallDay], float]) -> Series:
    readings = [
        Reading(
            _noon(each).timestamp(),
            value(each),
            f"{each.day:%d %b}, {PLANS[plan]}: recall@10 {each.recall_10:.3f} "
            f"({each.low:.3f} to {each.high:.3f}), {each.samples} searches",
        )
        for each in found
        if each.plan == plan
    ]
    return Series(PLANS[plan], readings)


def _noon(each: RecallDay) -> datetime:
    """In the middle of the day, so that no zone of time shows it as its neighbour."""
    return datetime.combine(each.day, time(12), UTC)
