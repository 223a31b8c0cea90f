"""Pages for operations: figures of all tenants, and no text of any."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.documents.queues import queue_figures
from apps.evals.selectors.recall import recall_by_plan
from apps.ops import quality as figures
from apps.ops.charts import bars
from apps.telemetry.access import ops_page
from apps.telemetry.ingestion import failures, per_minute, slowest

HOURS = (1, 24, 168)
DEFAULT_HOURS = 1
SLOWEST_SHOWN = 10
# Bars of the chart: one a minute for an hour, and as many for longer stretches.
BARS = 60
RECALL_DAYS = 7


@require_GET
@ops_page
def ingestion(request: HttpRequest) -> HttpResponse:
    """Queues, throughput, failures and the slowest files."""
    asked = request.GET.get("hours", "")
    hours = int(asked) if asked in map(str, HOURS) else DEFAULT_HOURS
    now = timezone.now()
    since = now - timedelta(hours=hours)
    rates = per_minute(since, now, buckets=BARS)
    context = {
        "hours": hours,
        "choices": HOURS,
        "queues": queue_figures(),
        "chart": bars(rates),
        "busiest": max(rates),
        "ready": round(sum(rates) * hours * 60 / BARS),
        "failures": failures(since),
        "slowest": slowest(since, limit=SLOWEST_SHOWN),
    }
    template = "ops/_ingestion.html" if request.htmx else "ops/ingestion.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_GET
@ops_page
def quality(request: HttpRequest) -> HttpResponse:
    """Newest figures of every labelled set, alerts, live recall, and the HNSW indexes."""
    context = {
        "metrics": figures.METRICS,
        "sets": figures.newest_figures(),
        "alerts": figures.open_alerts_by_kind(),
        "recall": recall_by_plan(timezone.now() - timedelta(days=RECALL_DAYS)),
        "recall_days": RECALL_DAYS,
        "indexes": figures.hnsw_indexes(),
    }
    return render(request, "ops/quality.html", context)
