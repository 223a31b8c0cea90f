"""How well search finds, of all tenants: figures and identifiers, and no text of any."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, F, When, Window
from django.db.models.functions import RowNumber

from apps.evals.models import Alert, EvalRun
from apps.retrieval.models import AnnIndex

METRICS = ("ndcg@10", "recall@10", "recall@50")
SETS_SHOWN = 200
INDEXES_SHOWN = 200


@dataclass(frozen=True)
class SetFigures:
    """The newest finished run of a set, and how it differs from the one before."""

    tenant_id: uuid.UUID
    set_id: uuid.UUID
    run_id: uuid.UUID
    at: datetime
    questions: int
    sampled: bool
    values: list[float | None]  # in the order of METRICS
    change: float | None  # of nDCG@10; None where there was no run before
    alerts: int  # open ones, of this set's runs


def newest_figures() -> list[SetFigures]:
    """Every set that was run, the newest run first; at most SETS_SHOWN."""
    pairs: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for row in _last_two_runs():
        pairs.setdefault(row["labelled_set_id"], []).append(row)
    alerts = open_alerts_by_set()
    figures = [_figures(rows, alerts) for rows in pairs.values()]
    return sorted(figures, key=lambda each: each.at, reverse=True)[:SETS_SHOWN]


def open_alerts_by_set() -> Mapping[uuid.UUID, int]:
    """Alerts about runs that nobody has seen, by labelled set."""
    rows = Alert.objects.filter(seen_at=None, run__isnull=False)
    counted = rows.values_list("run__labelled_set_id").annotate(Count("id")).order_by()
    return dict(counted)


def open_alerts_by_kind() -> list[tuple[str, int, int]]:
    """Words for the kind, alerts that nobody has seen, and in how many tenants."""
    rows = Alert.objects.filter(seen_at=None).values_list("kind")
    counted = rows.annotate(Count("id"), Count("tenant_id", distinct=True)).order_by("kind")
    return [(str(Alert.Kind(kind).label), alerts, tenants) for kind, alerts, tenants in counted]


def hnsw_indexes() -> list[AnnIndex]:
    """HNSW indexes of all tenants: what failed or is being built first, then the largest."""
    trouble = Case(
        When(state=AnnIndex.State.FAILED, then=0),
        When(state=AnnIndex.State.BUILDING, then=1),
        default=2,
    )
    rows = AnnIndex.objects.order_by(trouble, F("size_bytes").desc(nulls_last=True), "id")
    return list(rows[:INDEXES_SHOWN])


def _last_two_runs() -> list[dict[str, Any]]:
    """Of each set, newest first. Runs that searched otherwise than readers do not count."""
    newest_first = Window(
        RowNumber(), partition_by=F("labelled_set_id"), order_by=F("created_at").desc()
    )
    runs = EvalRun.objects.filter(state=EvalRun.State.DONE, figures__questions__gt=0)
    watched = runs.exclude(trigger=EvalRun.Trigger.GATE).exclude(configuration__default=False)
    ranked = watched.annotate(rank=newest_first)
    rows = ranked.filter(rank__lte=2).order_by("labelled_set_id", "rank")
    named = rows.values(
        *("id", "tenant_id", "labelled_set_id", "created_at", "sample"),
        questions=F("figures__questions"),
        final=F("figures__stages__final"),
    )
    return list(named)


def _figures(rows: Sequence[dict[str, Any]], alerts: Mapping[uuid.UUID, int]) -> SetFigures:
    newest, *before = rows
    values = [_value(newest, metric) for metric in METRICS]
    earlier = _value(before[0], METRICS[0]) if before else None
    known = values[0] is not None and earlier is not None
    return SetFigures(
        tenant_id=newest["tenant_id"],
        set_id=newest["labelled_set_id"],
        run_id=newest["id"],
        at=newest["created_at"],
        questions=newest["questions"],
        sampled=newest["sample"] is not None,
        values=values,
        change=values[0] - earlier if known else None,  # type: ignore[operator]
        alerts=alerts.get(newest["labelled_set_id"], 0),
    )


def _value(row: dict[str, Any], metric: str) -> float | None:
    value: float | None = (row["final"] or {}).get(metric)
    return value
