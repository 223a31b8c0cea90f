"""Alerts on live searches, from the samples that were searched exactly as well."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Avg, Count, F, Q, StdDev
from django.db.models.functions import Least
from django.utils import timezone

from apps.evals.alerts import raise_once
from apps.evals.models import Alert
from apps.retrieval.models import RecallSample, SearchProfile

WINDOW = timedelta(days=1)
SAMPLES_MIN = 20  # fewer say little of a mean
RECALL_GOAL = 0.98  # where the tenant's profile was not tuned for another
_Z = 1.96  # 95 %


@dataclass(frozen=True)
class Live:
    """A tenant's samples of a while."""

    samples: int
    short: int  # found fewer passages than there were
    recall: float  # at 10, mean
    low: float
    high: float


def check_live(now: datetime | None = None) -> list[Alert]:
    """Raise what is new since the last alert of its kind, over all tenants.

    Recall is low when even the upper end of its 95 % interval is under the goal; a single search
    that found fewer passages than exist is one too many.
    """
    now = now or timezone.now()
    recent = RecallSample.objects.filter(at__gt=now - WINDOW, exact_rows__isnull=False)
    tenants = list(recent.order_by().values_list("tenant_id", flat=True).distinct())
    raised = [
        alert for each in tenants for alert in (_check_recall(each, now), _check_rows(each, now))
    ]
    return [alert for alert in raised if alert is not None]


@transaction.atomic
def _check_recall(tenant_id: uuid.UUID, now: datetime) -> Alert | None:
    live = _live(tenant_id, Alert.Kind.RECALL_LOW, now)
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
    live = _live(tenant_id, Alert.Kind.ROWS_MISSING, now)
    if not live.short:
        return None
    figures = {"short": live.short, "count": live.samples}
    return raise_once(tenant_id, Alert.Kind.ROWS_MISSING, "rows", figures)


def _live(tenant_id: uuid.UUID, kind: str, now: datetime) -> Live:
    """Samples of the last day, after the last alert of that kind: what it was about is told."""
    last = Alert.objects.filter(tenant_id=tenant_id, kind=kind).order_by("-at").first()
    since = max(now - WINDOW, last.at) if last else now - WINDOW
    checked = RecallSample.objects.filter(
        tenant_id=tenant_id, at__gt=since, recall_10__isnull=False
    )
    is_short = Q(found_rows__lt=Least(F("wanted"), F("exact_rows")))
    found = checked.aggregate(
        samples=Count("id"),
        short=Count("id", filter=is_short),
        mean=Avg("recall_10"),
        deviation=StdDev("recall_10", sample=True),
    )
    mean, samples = found["mean"] or 0.0, found["samples"]
    spread = _Z * (found["deviation"] or 0.0) / math.sqrt(samples) if samples else 1.0
    return Live(samples, found["short"], mean, max(0.0, mean - spread), min(1.0, mean + spread))


def _goal(tenant_id: uuid.UUID) -> float:
    profile = SearchProfile.objects.filter(tenant_id=tenant_id, active=True).first()
    return profile.recall_goal if profile and profile.recall_goal else RECALL_GOAL
