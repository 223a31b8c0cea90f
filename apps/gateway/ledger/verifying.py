"""Whether rollups and budget counters say what the ledger says, to the micro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from apps.gateway.ledger import summing
from apps.gateway.ledger.days import Period, day_of, month_of
from apps.gateway.ledger.measures import SUMS
from apps.gateway.models import RollupMark, RollupZone
from apps.tenants.models import Tenant

_DERIVED = "derived_ledger"
_LINES = {
    "days": ("day", ("tenant_id", "dimension", "day", "key"), tuple(SUMS)),
    "hours": ("hour", ("tenant_id", "dimension", "hour", "key"), tuple(SUMS)),
    "conversations": ("conversation", ("tenant_id", "day", "conversation_id"), ("cost_micros",)),
}
# A request counts in the window that it began in and by its process's clock; its rows are dated
# when they end, by the database's. Within these of a window's begin both are right.
_LATEST = "15 minutes"
_SKEW = "1 minute"


@dataclass(frozen=True)
class Difference:
    """One line that is not what the ledger says. Micros (or tokens, of a counter of tokens)."""

    table: str  # days, hours, conversations or counters
    where: str  # identifiers
    stored: int | None  # None: there is no such line
    ledger: int | None


def verify() -> list[Difference]:
    """Every line that differs; the roller waits meanwhile, calls do not."""
    return [*_rollups(), *_counters()]


def _rollups() -> list[Difference]:
    with transaction.atomic():
        mark = RollupMark.objects.select_for_update().get_or_create(id=1)[0]
        with connection.cursor() as cursor:
            for name, _, _ in _LINES.values():
                cursor.execute(
                    f"CREATE TEMPORARY TABLE {_DERIVED}{name} "
                    f"(LIKE gateway_ledger{name} INCLUDING ALL) ON COMMIT DROP"
                )
            zones = dict(RollupZone.objects.values_list("tenant_id", "time_zone"))
            for span in summing.Span(0, mark.upto_id, _DERIVED).pieces():
                summing.add(span, zones)
            found = [
                difference
                for table, (name, keys, sums) in _LINES.items()
                for difference in _different(cursor, table, name, keys, sums)
            ]
            for name, _, _ in _LINES.values():
                cursor.execute(f"DROP TABLE {_DERIVED}{name}")
    return found


def _different(
    cursor: Any, table: str, name: str, keys: Sequence[str], sums: Sequence[str]
) -> list[Difference]:
    row_of = {side: ", ".join(f"{side}.{each}" for each in sums) for side in ("stored", "ledger")}
    cursor.execute(
        f"""
        SELECT {", ".join(keys)}, stored.cost_micros, ledger.cost_micros
        FROM gateway_ledger{name} AS stored FULL JOIN {_DERIVED}{name} AS ledger
            USING ({", ".join(keys)})
        WHERE ROW({row_of["stored"]}) IS DISTINCT FROM ROW({row_of["ledger"]})
        ORDER BY {", ".join(keys)}
        """  # noqa: S608 - words of ours
    )
    return [
        Difference(table, " ".join(map(str, where)), stored, ledger)
        for *where, stored, ledger in cursor.fetchall()
    ]


_COUNTERS = """
    WITH spans AS (
        SELECT * FROM unnest(%(tenants)s::uuid[], %(measures)s::text[], %(starts)s::timestamptz[],
                             %(ends)s::timestamptz[]) AS t(tenant_id, measure, starts, ends)
    ), entries AS (
        SELECT spans.tenant_id, measure, starts, user_id, key_id,
            CASE WHEN measure = 'micros' THEN cost_micros
                 WHEN hop IN ('generate', 'rewrite') THEN prompt_tokens + output_tokens
                 ELSE 0 END AS amount,
            at >= starts + %(latest)s::interval AS certain
        FROM spans JOIN gateway_ledgerentry AS entry ON entry.tenant_id = spans.tenant_id
            AND at >= starts - %(skew)s::interval AND at < ends
    ), sums AS (
        SELECT tenant_id, measure, starts AS window_start, subject, subject_id,
            sum(amount)::bigint AS most,
            coalesce(sum(amount) FILTER (WHERE certain), 0)::bigint AS least
        FROM entries, LATERAL (
            VALUES ('tenant', ''), ('member', user_id::text), ('key', key_id::text)
        ) AS whose(subject, subject_id)
        WHERE subject_id IS NOT NULL
        GROUP BY tenant_id, measure, starts, subject, subject_id
    ), counters AS (
        SELECT tenant_id, measure, window_start, subject, subject_id, used
        FROM gateway_budgetcounter JOIN spans USING (tenant_id, measure)
        WHERE window_start = starts
    )
    SELECT tenant_id, subject, subject_id, measure, window_start, used, most
    FROM sums FULL JOIN counters USING (tenant_id, measure, window_start, subject, subject_id)
    WHERE coalesce(used, 0) NOT BETWEEN coalesce(least, 0) AND coalesce(most, 0)
    ORDER BY 1, 2, 3, 4
"""


def _counters() -> list[Difference]:
    """The running windows' counters against the ledger, in one statement."""
    now = timezone.now()
    spans = [
        (tenant.id, measure, period.begins, period.ends)
        for tenant in Tenant.objects.only("id", "time_zone")
        for measure, period in _windows(now, tenant.time_zone)
    ]
    columns: list[list[Any]] = [list(column) for column in zip(*spans, strict=True)] or [[]] * 4
    values = dict(zip(("tenants", "measures", "starts", "ends"), columns, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(_COUNTERS, {**values, "latest": _LATEST, "skew": _SKEW})
        return [
            Difference("counters", f"{tenant_id} {subject} {subject_id} {measure} {start}", *sums)
            for tenant_id, subject, subject_id, measure, start, *sums in cursor.fetchall()
        ]


def _windows(now: datetime, time_zone: str) -> list[tuple[str, Period]]:
    today = day_of(now, time_zone)
    return [("micros", month_of(now, time_zone)), ("tokens", Period(today, today, time_zone))]
