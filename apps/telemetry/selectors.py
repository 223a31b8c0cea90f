"""Reading what was measured."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import QuerySet
from psycopg import sql

from apps.telemetry.hops import WALKS
from apps.telemetry.models import HopStatus, Span


@dataclass(frozen=True)
class Ending:
    """How many hops ended with a status."""

    status: str
    count: int


@dataclass(frozen=True)
class HopFigures:
    """One hop over a stretch of time. Work time and waiting time in ms; shares add up to 1.

    Percentiles are of the hops that worked: a skipped one took no time and would flatter them.
    They are None where every hop was skipped.
    """

    hop: str
    count: int  # skipped ones included
    p50_ms: float | None
    p95_ms: float | None
    wait_p95_ms: float | None
    shares: dict[str, float]  # by HopStatus value; statuses that did not occur are 0.0

    @property
    def endings(self) -> list[Ending]:
        """The statuses that did occur, with their counts."""
        return [
            Ending(status, round(share * self.count))
            for status, share in self.shares.items()
            if share
        ]


def hops_of(tenant_id: uuid.UUID, trace_id: uuid.UUID) -> QuerySet[Span]:
    """The hops of one answer or ingestion, in the order they began."""
    return Span.objects.filter(tenant_id=tenant_id, trace_id=trace_id).order_by("started_at", "id")


def hop_percentiles(
    kind: str, since: datetime, *, tenant_id: uuid.UUID | None = None
) -> list[HopFigures]:
    """Figures per hop of `kind` ("answer" or "ingestion") since a moment, in the hops' order.

    Of one tenant, or of all of them: for operations only. A percentile is interpolated between
    the two nearest values (PostgreSQL's percentile_cont).
    """
    statuses = list(HopStatus.values)
    counts = sql.SQL(", ").join(
        sql.SQL("count(*) FILTER (WHERE status = {})").format(status) for status in statuses
    )
    query = sql.SQL(
        """
        SELECT hop, count(*),
               percentile_cont(0.5) WITHIN GROUP (ORDER BY work_ms) FILTER (WHERE worked),
               percentile_cont(0.95) WITHIN GROUP (ORDER BY work_ms) FILTER (WHERE worked),
               percentile_cont(0.95) WITHIN GROUP (ORDER BY wait_ms) FILTER (WHERE worked),
               {counts}
        FROM telemetry_span, LATERAL (SELECT status <> 'skipped' AS worked) AS outcome
        WHERE kind = %s AND started_at >= %s AND (%s::uuid IS NULL OR tenant_id = %s::uuid)
        GROUP BY hop
        """
    ).format(counts=counts)
    with connection.cursor() as cursor:
        cursor.execute(query.as_string(cursor.connection), [kind, since, tenant_id, tenant_id])
        rows = cursor.fetchall()
    figures = [
        HopFigures(
            hop=hop,
            count=count,
            p50_ms=p50,
            p95_ms=p95,
            wait_p95_ms=wait_p95,
            shares={
                status: number / count for status, number in zip(statuses, by_status, strict=True)
            },
        )
        for hop, count, p50, p95, wait_p95, *by_status in rows
    ]
    return sorted(figures, key=lambda one: (_place(kind, one.hop), one.hop))


def _place(kind: str, hop: str) -> int:
    """Where a hop stands in its walk; hops the walk does not know come last."""
    walk = WALKS.get(kind, ())
    return walk.index(hop) if hop in walk else len(walk)
