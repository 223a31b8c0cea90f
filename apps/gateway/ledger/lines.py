"""Reading sums by day and one dimension."""

from __future__ import annotations

import uuid
from datetime import date
from typing import Any, Literal

from django.db import connection

from apps.gateway.ledger.days import Period, bounds
from apps.gateway.ledger.measures import ALL, KEYS, SUMS, sums_of_lines, sums_of_rows

Sum = dict[str, int]  # by the names of SUMS


def read_lines(
    tenant_id: uuid.UUID | None, period: Period, dimension: str = ALL
) -> list[tuple[str, Sum]]:
    """The period's sums by key, dearest first."""
    return [(key, sums) for key, sums in _read(tenant_id, period, dimension, "key")]


def read_days(
    tenant_id: uuid.UUID | None, period: Period, dimension: str = ALL
) -> list[tuple[date, str, Sum]]:
    """Sums by day and key, of days that had calls, in order."""
    found = _read(tenant_id, period, dimension, "day, key")
    return [(day, key, sums) for (day, key), sums in found]


def _read(
    tenant_id: uuid.UUID | None,
    period: Period,
    dimension: str,
    group: Literal["key", "day, key"],
) -> list[tuple[Any, Sum]]:
    order = "cost_micros DESC, calls DESC, key" if group == "key" else group
    query = f"""
        SELECT {group}, {sums_of_lines()} FROM (
            SELECT (%(days)s::date[])[width_bucket(at, %(bounds)s::timestamptz[])] AS day,
                {KEYS[dimension]} AS key, {sums_of_rows()}
            FROM gateway_ledgerentry
            WHERE {"" if tenant_id is None else "tenant_id = %(tenant)s AND"}
                at >= %(begins)s AND at < %(ends)s
            GROUP BY 1, 2
        ) AS lines
        GROUP BY {group} ORDER BY {order}
    """  # noqa: S608 - words of ours
    values = {
        "tenant": tenant_id,
        "days": period.days,
        "bounds": bounds(period),
        "begins": period.begins,
        "ends": period.ends,
    }
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        rows = cursor.fetchall()
    width = len(SUMS)
    return [
        (row[:-width] if group != "key" else row[0], dict(zip(SUMS, row[-width:], strict=True)))
        for row in rows
    ]
