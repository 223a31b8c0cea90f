"""Reading sums by day and dimension: rollups up to their mark, the ledger above it.

Both in one statement, so that a roller at work between them cannot make a row count twice or not
at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db import connection

from apps.gateway.ledger.days import Period, bounds, day_of
from apps.gateway.ledger.measures import (
    ALL,
    KEYS,
    SUMS,
    grouping,
    sums_of_lines,
    sums_of_rows,
)
from apps.gateway.models import EVERYBODY, RollupMark, RollupZone

Sum = dict[str, int]  # by the names of SUMS
_MARK = "(SELECT coalesce(max(upto_id), 0) FROM gateway_rollupmark)"


def read_lines(
    tenant_id: uuid.UUID | None, period: Period, dimensions: Sequence[str] = (ALL,)
) -> dict[str, list[tuple[str, Sum]]]:
    """The period's sums by key, dearest first, of each dimension; in one pass."""
    source, by = _source(tenant_id, period), grouping(dimensions)
    query = f"""
        SELECT dimension, key, {sums_of_lines()} FROM (
            SELECT dimension, key, {", ".join(SUMS)} FROM gateway_ledgerday
            WHERE {source.lines} AND dimension = ANY(%(dimensions)s)
            UNION ALL
            SELECT {by.dimension} AS dimension, {by.key} AS key, {sums_of_rows()}
            FROM (SELECT * {by.columns} FROM gateway_ledgerentry WHERE {source.rows}) AS entries
            GROUP BY GROUPING SETS ({by.sets})
            HAVING count(*) > 0
        ) AS lines
        GROUP BY dimension, key ORDER BY cost_micros DESC, calls DESC, key
    """  # noqa: S608 - words of ours
    found: dict[str, list[tuple[str, Sum]]] = {dimension: [] for dimension in dimensions}
    with connection.cursor() as cursor:
        cursor.execute(query, {**source.values, "dimensions": list(dimensions)})
        for dimension, key, *sums in cursor.fetchall():
            found[dimension].append((key, dict(zip(SUMS, sums, strict=True))))
    return found


def read_days(
    tenant_id: uuid.UUID | None, period: Period, dimension: str = ALL
) -> list[tuple[date, str, Sum]]:
    """Sums by day and key, of days that had calls, in order."""
    source = _source(tenant_id, period)
    query = f"""
        SELECT day, key, {sums_of_lines()} FROM (
            SELECT day, key, {", ".join(SUMS)} FROM gateway_ledgerday
            WHERE {source.lines} AND dimension = %(dimension)s
            UNION ALL
            SELECT (%(days)s::date[])[width_bucket(at, %(bounds)s::timestamptz[])] AS day,
                {KEYS[dimension]} AS key, {sums_of_rows()}
            FROM gateway_ledgerentry WHERE {source.rows}
            GROUP BY 1, 2
        ) AS lines
        GROUP BY day, key ORDER BY day, key
    """  # noqa: S608 - words of ours
    values: dict[str, Any] = {
        "dimension": dimension,
        "days": period.days,
        "bounds": bounds(period),
    }
    with connection.cursor() as cursor:
        cursor.execute(query, {**source.values, **values})
        found = cursor.fetchall()
    return [(day, key, dict(zip(SUMS, sums, strict=True))) for day, key, *sums in found]


def read_hours(
    tenant_id: uuid.UUID | None, begins: datetime, ends: datetime
) -> dict[datetime, Sum]:
    """Sums by hour of UTC, of hours that had calls."""
    tail = "" if tenant_id is None else " AND tenant_id = %(whose)s"
    query = f"""
        SELECT hour, {sums_of_lines()} FROM (
            SELECT hour, {", ".join(SUMS)} FROM gateway_ledgerhour
            WHERE tenant_id = %(whose)s AND dimension = %(dimension)s
                AND hour >= %(begins)s AND hour < %(ends)s
            UNION ALL
            SELECT date_trunc('hour', at, 'UTC') AS hour, {sums_of_rows()}
            FROM gateway_ledgerentry
            WHERE at >= %(begins)s AND at < %(ends)s {tail}
                AND id > %(mark)s AND id > {_MARK}
            GROUP BY 1
        ) AS lines GROUP BY hour
    """  # noqa: S608 - words of ours
    values: dict[str, Any] = {
        "whose": tenant_id or EVERYBODY,
        "dimension": ALL,
        "mark": _mark(),
    }
    with connection.cursor() as cursor:
        cursor.execute(query, {**values, "begins": begins, "ends": ends})
        return {hour: dict(zip(SUMS, sums, strict=True)) for hour, *sums in cursor.fetchall()}


def read_conversations(tenant_id: uuid.UUID | None, period: Period) -> tuple[int, int]:
    """How many conversations had a call in the period, and what their calls cost."""
    source = _source(tenant_id, period)
    query = f"""
        SELECT count(*), coalesce(sum(micros), 0)::bigint FROM (
            SELECT conversation_id, sum(cost_micros) AS micros FROM (
                SELECT conversation_id, cost_micros FROM gateway_ledgerconversation
                WHERE {source.lines}
                UNION ALL
                SELECT conversation_id, cost_micros FROM gateway_ledgerentry
                WHERE {source.rows} AND conversation_id IS NOT NULL
            ) AS calls GROUP BY conversation_id
        ) AS conversations
    """  # noqa: S608 - words of ours
    with connection.cursor() as cursor:
        cursor.execute(query, source.values)
        count, micros = cursor.fetchone()
    return count, micros


def read_dearest(tenant_id: uuid.UUID | None, period: Period, limit: int) -> list[int]:
    """Ids of the dearest calls, dearest first: the dearest of each day, by its index, and of those.

    Straight from the ledger: the indexes hold each UTC day's calls by their cost.
    """
    days = Period(day_of(period.begins, "UTC"), day_of(period.ends, "UTC")).days
    query = f"""
        SELECT id FROM unnest(%(days)s::date[]) AS day, LATERAL (
            SELECT id, cost_micros FROM gateway_ledgerentry
            WHERE {"" if tenant_id is None else "tenant_id = %(tenant)s AND"}
                ((at AT TIME ZONE 'UTC')::date) = day AND at >= %(begins)s AND at < %(ends)s
            ORDER BY cost_micros DESC, id DESC LIMIT %(limit)s
        ) AS dearest ORDER BY cost_micros DESC, id DESC LIMIT %(limit)s
    """  # noqa: S608 - words of ours
    values = {"tenant": tenant_id, "days": days, "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(query, {**values, "begins": period.begins, "ends": period.ends})
        return [row[0] for row in cursor.fetchall()]


@dataclass(frozen=True)
class _Source:
    """Which lines and which rows make up a period: conditions, and the values in them."""

    lines: str
    rows: str
    values: dict[str, Any]


def _source(tenant_id: uuid.UUID | None, period: Period) -> _Source:
    whose = tenant_id or EVERYBODY
    values = {
        "whose": whose,
        "first": period.first,
        "last": period.last,
        "begins": period.begins,
        "ends": period.ends,
        "mark": _mark(),
    }
    rows = "at >= %(begins)s AND at < %(ends)s"
    if tenant_id is not None:
        rows += " AND tenant_id = %(whose)s"
    if not _summed_there(whose, period.time_zone):
        return _Source("false", rows, values)
    # The number lets the planner see how few there are, the mark is where it is by now.
    rows += f" AND id > %(mark)s AND id > {_MARK}"
    return _Source("tenant_id = %(whose)s AND day BETWEEN %(first)s AND %(last)s", rows, values)


def _mark() -> int:
    return RollupMark.objects.values_list("upto_id", flat=True).first() or 0


def _summed_there(whose: uuid.UUID, time_zone: str) -> bool:
    """Whether the days of the rollups are those of the zone; else the ledger has to be read."""
    if whose == EVERYBODY:
        return time_zone == "UTC"
    zone = RollupZone.objects.filter(tenant_id=whose).values_list("time_zone", flat=True).first()
    return zone is None or zone == time_zone
