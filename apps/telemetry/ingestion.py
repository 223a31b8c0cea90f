"""What the spans of ingestion say of all tenants: throughput, failures, slow files."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, Max, Sum

from apps.telemetry.models import HopStatus, Span


@dataclass(frozen=True)
class Failure:
    """A reason that a hop of ingestion ended in an error for."""

    hop: str
    code: str
    times: int
    documents: int
    last_at: datetime


@dataclass(frozen=True)
class SlowFile:
    """A document by its identifiers and figures; sizes are None where its hop did not get there."""

    tenant_id: uuid.UUID
    document_id: uuid.UUID
    work_ms: float
    wait_ms: float
    size_bytes: int | None
    pages: int | None
    chunks: int | None


def per_minute(since: datetime, until: datetime, *, buckets: int) -> list[float]:
    """Documents that became ready a minute, in `buckets` equal stretches of the time."""
    counts = [0] * buckets
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT width_bucket(extract(epoch FROM started_at), %s, %s, %s), count(*)
            FROM telemetry_span
            WHERE kind = 'ingestion' AND hop = 'index' AND started_at >= %s AND started_at < %s
                AND status = 'ok'
            GROUP BY 1
            """,
            [since.timestamp(), until.timestamp(), buckets, since, until],
        )
        for bucket, count in cursor.fetchall():
            counts[min(bucket, buckets) - 1] += count
    minutes = (until - since).total_seconds() / 60 / buckets
    return [count / minutes for count in counts]


def failures(since: datetime) -> list[Failure]:
    """Reasons with their counts, the most frequent first.

    Of attempts: a document that waited for the embedding server and became ready is among them.
    """
    rows = (
        Span.objects.filter(kind="ingestion", started_at__gte=since, status=HopStatus.ERROR)
        .values("hop", "error_code")
        .annotate(
            times=Count("id"), documents=Count("trace_id", distinct=True), last=Max("started_at")
        )
        .order_by("-times", "hop", "error_code")
    )
    return [
        Failure(row["hop"], row["error_code"], row["times"], row["documents"], row["last"])
        for row in rows
    ]


def slowest(since: datetime, *, limit: int) -> list[SlowFile]:
    """The documents that took most work since a moment, all their hops and attempts together."""
    totals = (
        Span.objects.filter(kind="ingestion", started_at__gte=since)
        .values("tenant_id", "trace_id")
        .annotate(work=Sum("work_ms"), wait=Sum("wait_ms"))
        .order_by("-work")[:limit]
    )
    return [
        SlowFile(
            row["tenant_id"],
            row["trace_id"],
            row["work"],
            row["wait"],
            *_sizes(row["tenant_id"], row["trace_id"]),
        )
        for row in totals
    ]


def _sizes(tenant_id: uuid.UUID, trace_id: uuid.UUID) -> tuple[int | None, int | None, int | None]:
    known: dict[str, int] = {}
    spans = Span.objects.filter(tenant_id=tenant_id, trace_id=trace_id).order_by("id")
    for attributes in spans.values_list("attributes", flat=True):
        known.update(
            {name: attributes[name] for name in ("bytes", "pages", "chunks") if name in attributes}
        )
    return known.get("bytes"), known.get("pages"), known.get("chunks")
