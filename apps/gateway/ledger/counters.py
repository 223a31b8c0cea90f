"""The budget counters of the running windows, against the ledger and out of it.

A request counts in the window that it began in, by its process's clock; its rows are dated when
they end, by the database's. So a counter may lie between the sums with and without what ended near
its window's begin.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from apps.gateway.ledger.days import Period, day_of, month_of
from apps.tenants.models import Tenant

_SURELY_WITHIN = "15 minutes"  # of the window's begin: then it also began in it
_SKEW = "1 minute"  # between the clocks of a process and the database
# Money is everybody's, tokens those that language models read and write.
_SUMS = """
    WITH spans AS (
        SELECT * FROM unnest(%(tenants)s::uuid[], %(measures)s::text[], %(starts)s::timestamptz[],
                             %(ends)s::timestamptz[]) AS t(tenant_id, measure, starts, ends)
    ), sums AS (
        SELECT spans.tenant_id, measure, starts AS window_start, subject, subject_id,
            sum(amount)::bigint AS most,
            coalesce(sum(amount) FILTER (WHERE at >= starts), 0)::bigint AS exact,
            coalesce(sum(amount) FILTER (WHERE at >= starts + %(within)s::interval), 0)::bigint
                AS least
        FROM spans JOIN gateway_ledgerentry AS entry ON entry.tenant_id = spans.tenant_id
                AND at >= starts - %(skew)s::interval AND at < ends,
            LATERAL (SELECT CASE WHEN measure = 'micros' THEN cost_micros
                WHEN hop IN ('generate', 'rewrite', 'title') THEN prompt_tokens + output_tokens
                ELSE 0 END) AS amounts(amount),
            LATERAL (
                VALUES ('tenant', ''), ('member', user_id::text), ('key', key_id::text)
            ) AS whose(subject, subject_id)
        WHERE subject_id IS NOT NULL
        GROUP BY 1, 2, 3, 4, 5
    )
"""
_DIFFERENT = f"""{_SUMS}, counters AS (
        SELECT tenant_id, measure, window_start, subject, subject_id, used
        FROM gateway_budgetcounter JOIN spans USING (tenant_id, measure)
        WHERE window_start = starts
    )
    SELECT tenant_id, subject, subject_id, measure, window_start, used, exact
    FROM sums FULL JOIN counters USING (tenant_id, measure, window_start, subject, subject_id)
    WHERE coalesce(used, 0) NOT BETWEEN coalesce(least, 0) AND coalesce(most, 0)
    ORDER BY 1, 2, 3, 4
"""  # noqa: S608 - words of ours
# In the order in which settlements lock them, so that neither waits for the other in a circle.
_ORDER = "ORDER BY measure, subject, subject_id"
_MAKE = f"""{_SUMS}
    INSERT INTO gateway_budgetcounter
        (tenant_id, measure, window_start, subject, subject_id, used, reserved)
    SELECT tenant_id, measure, window_start, subject, subject_id, 0, 0 FROM sums {_ORDER}
    ON CONFLICT DO NOTHING
"""  # noqa: S608 - words of ours
_LOCK = f"""
    SELECT counter.id FROM gateway_budgetcounter AS counter JOIN unnest(
        %(measures)s::text[], %(starts)s::timestamptz[]
    ) AS span(measure, starts) USING (measure)
    WHERE tenant_id = ANY(%(tenants)s::uuid[]) AND window_start = starts
    {_ORDER} FOR UPDATE OF counter
"""  # noqa: S608 - words of ours
_SET = f"""{_SUMS}
    UPDATE gateway_budgetcounter AS counter SET used = coalesce(exact, 0)
    FROM gateway_budgetcounter AS same LEFT JOIN sums
        USING (tenant_id, measure, window_start, subject, subject_id)
    WHERE same.id = counter.id AND counter.id = ANY(%(counters)s)
        AND counter.used <> coalesce(exact, 0)
"""  # noqa: S608 - words of ours


@dataclass(frozen=True)
class Counted:
    """A counter that is not what the ledger says. None: there is no such counter, or no row."""

    tenant_id: uuid.UUID
    where: str  # subject, measure and window
    used: int | None
    ledger: int | None


def different_counters() -> list[Counted]:
    """Those of the running windows of all tenants, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_DIFFERENT, _spans(Tenant.objects.only("id", "time_zone")))
        return [
            Counted(tenant_id, " ".join(map(str, where)), used, ledger)
            for tenant_id, *where, used, ledger in cursor.fetchall()
        ]


@transaction.atomic
def recount(tenant: Tenant) -> None:
    """Set the tenant's running counters to what the ledger says; reservations stay.

    A settlement that is under way is waited for, or adds to the counter afterwards. Needed where
    the tenant has moved: its windows are others, and what was spent in them is spent.
    """
    values = _spans([tenant])
    with connection.cursor() as cursor:
        cursor.execute(_MAKE, values)
        cursor.execute(_LOCK, values)
        counters = [row[0] for row in cursor.fetchall()]
        # A statement of its own: it sees what those have booked that the locks were waited for.
        cursor.execute(_SET, {**values, "counters": counters})


def _spans(tenants: Iterable[Tenant]) -> dict[str, Any]:
    """The running windows, as columns."""
    now = timezone.now()
    spans = [
        (tenant.id, measure, period.begins, period.ends)
        for tenant in tenants
        for measure, period in _windows(now, tenant.time_zone)
    ]
    columns: list[list[Any]] = [list(column) for column in zip(*spans, strict=True)] or [
        [],
        [],
        [],
        [],
    ]
    return {
        **dict(zip(("tenants", "measures", "starts", "ends"), columns, strict=True)),
        "within": _SURELY_WITHIN,
        "skew": _SKEW,
    }


def _windows(now: datetime, time_zone: str) -> list[tuple[str, Period]]:
    today = day_of(now, time_zone)
    return [("micros", month_of(now, time_zone)), ("tokens", Period(today, today, time_zone))]
