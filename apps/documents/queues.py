"""How much work waits, over all tenants: jobs hold no text and have no policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q
from django.utils import timezone

from apps.documents.models import Job, Stage


@dataclass(frozen=True)
class QueueFigures:
    """Jobs of one stage, and since when the oldest has waited."""

    stage: Stage
    waiting: int  # may be taken now
    working: int  # held by a worker
    delayed: int  # for something outside that does not answer
    tenants: int  # that have any of these
    oldest_age_s: float | None  # of those that wait or are delayed


def queue_figures() -> list[QueueFigures]:
    """Each stage's figures, in the order documents go through them."""
    now = timezone.now()
    held = Q(lease_expires_at__gt=now)
    later = Q(not_before__gt=now)
    counted = {
        row["stage"]: row
        for row in Job.objects.values("stage").annotate(
            all=Count("id"),
            working=Count("id", filter=held),
            delayed=Count("id", filter=later & ~held),
            tenants=Count("tenant", distinct=True),
            oldest=Min("since", filter=~held | Q(lease_expires_at__isnull=True)),
        )
    }
    return [_figures(stage, counted.get(stage.value), now) for stage in Stage]


def _figures(stage: Stage, row: Mapping[str, Any] | None, now: datetime) -> QueueFigures:
    if row is None:
        return QueueFigures(stage, 0, 0, 0, 0, None)
    working, delayed, oldest = int(row["working"]), int(row["delayed"]), row["oldest"]
    age = (now - oldest).total_seconds() if isinstance(oldest, datetime) else None
    waiting = int(row["all"]) - working - delayed
    return QueueFigures(stage, waiting, working, delayed, int(row["tenants"]), age)
