"""Alerts on live searches: recall, from samples; rows missing, from the spans of all searches."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Avg, Count, QuerySet, StdDev
from django.utils import timezone

from apps.evals.alerts import raise_once
from apps.evals.models import Alert
from apps.retrieval.models import RecallSample, SearchProfile
from apps.telemetry.models import Span

WINDOW = timedelta(days=1)
SAMPLES_MIN = 20  # fewer say little of a mean
RECALL_GOAL = 0.98  # where the tenant's profile was not tuned for another
_Z = 1.96  # 95 %


@dataclass(frozen=True)
class Live:
    """A tenant's samples of a while."""

    samples: int
    recall: float  # at 10, mean
    low: float
    high: float


def check_live(now: datetime | None = None) -> list[Alert]:
    """Raise what is new since the last alert of its kind, over all tenants.

    Recall is low when even the upper end of its 95 % interval is under the goal; a single search
    that found fewer passages than exist is one too many.
    """
    now = now or timezone.now()
    sampled = RecallSample.objects.filter(at__gt=now - WINDOW, exact_rows__isnull=False)
    raised = [
        *(_check_recall(each, now) for each in _tenants(sampled)),
        *(_check_rows(each, now) for each in _tenants(_short(_searches(now - WINDOW)))),
    ]
    return [alert for alert in raised if alert is not None]


def _tenants(rows: QuerySet[Any]) -> list[uuid.UUID]:
    return list(rows.order_by().values_list("tenant_id", flat=True).distinct())


def _searches(since: datetime) -> QuerySet[Span]:
    """Searches by an HNSW index; an exact one misses nothing."""
    return Span.objects.filter(
        kind="answer", hop="search", started_at__gt=since, attributes__plan="hnsw"
    )


def _short(searches: QuerySet[Span]) -> QuerySet[Span]:
    """Those that found fewer rows than there were, and were made again exactly."""
    return searches.filter(attributes__short_rows__gt=0)


@transaction.atomic
def _check_recall(tenant_id: uuid.UUID, now: datetime) -> Alert | None:
    live = _live(tenant_id, now)
    goal = _goal(tenant_id)
    if live.samples < SAMPLES_MIN or live.high >= goal:
        return None
    figures = {
        "after": live.recall,
        "low": live.low,
        "high": live.high,
        "goal": goal,
        "samples": live.samples,
    }
    return raise_once(tenant_id, Alert.Kind.RECALL_LOW, "recall@10", figures)


@transaction.atomic
def _check_rows(tenant_id: uuid.UUID, now: datetime) -> Alert | None:
    searches = _searches(_since(tenant_id, Alert.Kind.ROWS_MISSING, now)).filter(
        tenant_id=tenant_id
    )
    if not (short := _short(searches).count()):
        return None
    figures = {"short": short, "count": searches.count()}
    return raise_once(tenant_id, Alert.Kind.ROWS_MISSING, "rows", figures)


def _since(tenant_id: uuid.UUID, kind: str, now: datetime) -> datetime:
    """A day ago, or the last alert of that kind: what it was about is told."""
    last = Alert.objects.filter(tenant_id=tenant_id, kind=kind).order_by("-at").first()
    return max(now - WINDOW, last.at) if last else now - WINDOW


def _live(tenant_id: uuid.UUID, now: datetime) -> Live:
    since = _since(tenant_id, Alert.Kind.RECALL_LOW, now)
    found = RecallSample.objects.filter(
        tenant_id=tenant_id, at__gt=since, recall_10__isnull=False
    ).aggregate(
        samples=Count("id"), mean=Avg("recall_10"), deviation=StdDev("recall_10", sample=True)
    )
    mean, samples = found["mean"] or 0.0, found["samples"]
    spread = _Z * (found["deviation"] or 0.0) / math.sqrt(samples) if samples else 1.0
    return Live(samples, mean, max(0.0, mean - spread), min(1.0, mean + spread))


def _goal(tenant_id: uuid.UUID) -> float:
    profile = SearchProfile.objects.filter(tenant_id=tenant_id, active=True).first()
    return profile.recall_goal if profile and profile.recall_goal else RECALL_GOAL
