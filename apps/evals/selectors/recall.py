"""How much of what exact search finds the live searches found. Figures only; no scope needed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Avg, Count, F, Q
from django.db.models.functions import Least

from apps.retrieval.models import RecallSample


@dataclass(frozen=True)
class PlanRecall:
    """A tenant's checked samples that one kind of plan was used for."""

    tenant_id: uuid.UUID
    plan: str  # "exact" or "hnsw"
    samples: int
    recall_10: float  # mean
    short: int  # of the samples: found fewer rows than there are


def recall_by_plan(since: datetime, *, tenant_id: uuid.UUID | None = None) -> list[PlanRecall]:
    """Since then, by tenant and plan; of one tenant where it is given."""
    samples = RecallSample.objects.filter(at__gte=since, recall_10__isnull=False)
    if tenant_id is not None:
        samples = samples.filter(tenant_id=tenant_id)
    too_few = Q(found_rows__lt=Least(F("wanted"), F("exact_rows")))
    rows = (
        samples.values("tenant_id", "plan")
        .annotate(samples=Count("id"), mean=Avg("recall_10"), short=Count("id", filter=too_few))
        .order_by("tenant_id", "plan")
    )
    return [
        PlanRecall(*row)
        for row in rows.values_list("tenant_id", "plan", "samples", "mean", "short")
    ]
