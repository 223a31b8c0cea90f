"""The quality page: how well search finds what it should, by set, and how that went over time."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.evals.charts import Chart, Reading, Series, draw, share_axis, time_axis
from apps.evals.comparing import compare
from apps.evals.errors import EvalsError
from apps.evals.models import EvalRun, LabelledSet
from apps.evals.running import start_run
from apps.evals.selectors.figures import HEADLINES, headlines
from apps.evals.selectors.recall import recall_by_plan
from apps.evals.selectors.runs import (
    RunPoint,
    SetStanding,
    alerts_to_show,
    sets_for,
    standing_of,
)
from apps.evals.templatetags.quality import metric_name
from apps.evals.views.lookups import find_set
from apps.retrieval.options import SearchOptions, options_for
from apps.tenants.access import Right, TenantRequest, tenant_page

RECALL_DAYS = 30
SWITCHES = ("words", "vectors", "rerank", "diversify")


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def quality(request: TenantRequest) -> HttpResponse:
    """Every set with its newest figures and its history, and the alerts that are open."""
    tenant_id = request.access.tenant.id
    since = timezone.now() - timedelta(days=RECALL_DAYS)
    share = settings.RECALL_SAMPLE_SHARE
    cards = [_card(request, each) for each in sets_for(request.access)]
    context = {
        # What is measured comes before what is still to be.
        "cards": sorted(cards, key=lambda card: card["standing"].newest is None),
        "alerts": list(alerts_to_show(tenant_id)),
        "recall": recall_by_plan(since, tenant_id=tenant_id),
        "recall_days": RECALL_DAYS,
        "recall_share": round(1 / share) if share > 0 else None,
    }
    return render(request, "evals/quality.html", context)


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def set_card(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """One set's part of the page, asked for again while a run is under way."""
    return render(
        request, "evals/_quality_set.html", _card(request, find_set(request.access, set_id))
    )


@require_GET
@tenant_page(Right.MANAGE_CORPUS)
def set_change(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """What changed between a set's last two runs; apart, for it draws thousands of samples."""
    standing = standing_of(find_set(request.access, set_id))
    context: dict[str, Any] = {"standing": standing}
    if standing.newest and standing.before:
        comparison = compare(standing.before, standing.newest)
        context["comparison"] = comparison
        context["differences"] = [(name, comparison.difference(name)) for name in HEADLINES]
    return render(request, "evals/_quality_change.html", context)


@require_POST
@tenant_page(Right.MANAGE_CORPUS)
def begin_run(request: TenantRequest, set_id: uuid.UUID) -> HttpResponse:
    """Start a run of the set: as questions are searched now, or with stages left out."""
    tenant = request.access.tenant
    labelled_set = find_set(request.access, set_id)
    try:
        run = start_run(
            tenant=tenant,
            labelled_set=labelled_set,
            user=request.access.user,
            trigger=EvalRun.Trigger.MANUAL,
            options=_options(request, options_for(tenant.id)),
            sample=_sample(request.POST.get("sample", "")),
        )
    except EvalsError as exc:
        messages.error(request, str(exc))
        return redirect("evals:quality", tenant.slug)
    return redirect("evals:run", tenant.slug, run.id)


def _options(request: TenantRequest, options: SearchOptions) -> SearchOptions | None:
    """None: as the tenant is searched. A form with switches leaves out those that are not on."""
    if "switches" not in request.POST:
        return None
    words, vectors, rerank, diversify = (name in request.POST for name in SWITCHES)
    return replace(options, words=words, vectors=vectors, rerank=rerank, diversify=diversify)


def _sample(text: str) -> int | None:
    wanted = int(text) if text.isdecimal() and len(text) < 9 else 0
    return wanted or None


def _card(request: TenantRequest, labelled_set: LabelledSet) -> dict[str, Any]:
    standing = standing_of(labelled_set)
    return {
        "access": request.access,
        "standing": standing,
        "headlines": headlines(standing.newest.figures) if standing.newest else [],
        "chart": _history_chart(request.access.tenant.slug, standing),
        "metrics": HEADLINES,
        "history": _history_rows(standing),
    }


def _history_chart(slug: str, standing: SetStanding) -> Chart | None:
    """None for less than two runs: one point is no line."""
    points = [point for point in standing.history if point.watched]
    if len(points) < 2:
        return None
    values = [point.final[name] for point in points for name in HEADLINES if name in point.final]
    series = [
        Series(metric_name(name), [_reading(slug, point, name) for point in points])
        for name in HEADLINES
        if all(name in point.final for point in points)
    ]
    return draw(series, x=time_axis([point.at for point in points]), y=share_axis(values))


def _reading(slug: str, point: RunPoint, metric: str) -> Reading:
    value = point.final[metric]
    local = timezone.localtime(point.at)
    title = (
        f"{metric_name(metric)} {value:.3f} of {point.questions} questions"
        f"{' (a sample)' if point.sampled else ''}, {local:%d %b %H:%M}, {point.trigger.lower()}"
    )
    return Reading(point.at.timestamp(), value, title, reverse("evals:run", args=[slug, point.id]))


def _history_rows(standing: SetStanding) -> list[tuple[RunPoint, list[float | None]]]:
    """For the table beneath the chart, newest first."""
    return [(point, [point.final.get(name) for name in HEADLINES]) for point in standing.history]
