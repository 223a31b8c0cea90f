"""Summing rows of the ledger into lines of the rollups: each dimension in the same pass."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from apps.gateway.ledger.days import Period, bounds, day_of
from apps.gateway.ledger.measures import ALL, CACHE, SUMS, grouping, sums_of_rows
from apps.gateway.models import EVERYBODY

_OF_TENANT = (ALL, "model", "user", "key", "collection", "source", "upstream", "hop", CACHE)
_OF_EVERYBODY = (*_OF_TENANT, "tenant")
# By hour, users and models would be as many lines as the ledger has rows.
_OF_HOURS = (ALL,)
_DAY = "(%(days)s::date[])[width_bucket(at, %(bounds)s::timestamptz[])]"
_HOUR = "date_trunc('hour', at, 'UTC')"


BATCH = 200_000  # ids summed at once


@dataclass(frozen=True)
class Span:
    """Rows with ids above `after`, up to `upto`, and the tables that they are summed into."""

    after: int
    upto: int
    tables: str = "gateway_ledger"  # then day, hour and conversation

    def pieces(self) -> Iterator[Span]:
        """The same in spans whose groups fit into memory."""
        for after in range(self.after, self.upto, BATCH):
            yield replace(self, after=after, upto=min(self.upto, after + BATCH))


def add(span: Span, zones: Mapping[uuid.UUID, str]) -> None:
    """Add the rows to all lines; `zones` are those of the tenants that have rows among them."""
    for zone in sorted(set(zones.values())):
        add_days(span, [tenant for tenant, its in zones.items() if its == zone], zone)
    _add_days_of_everybody(span)
    _add_hours(span)


def add_days(span: Span, tenants: Sequence[uuid.UUID], time_zone: str) -> None:
    """Add the tenants' rows to their days, in the zone they are in."""
    values = _values(span, time_zone, tenants=list(tenants))
    where = "id > %(after)s AND id <= %(upto)s AND tenant_id = ANY(%(tenants)s)"
    if values:
        _run(_adding(f"{span.tables}day", "day", _DAY, "tenant_id", _OF_TENANT, where), values)
        _run(_adding_conversations(span.tables, "tenant_id", where), values)


def _add_days_of_everybody(span: Span) -> None:
    """Add all rows to the days of UTC, for operations."""
    values = _values(span, "UTC", everybody=EVERYBODY)
    where = "id > %(after)s AND id <= %(upto)s"
    if values:
        _run(
            _adding(f"{span.tables}day", "day", _DAY, "%(everybody)s::uuid", _OF_EVERYBODY, where),
            values,
        )
        _run(_adding_conversations(span.tables, "%(everybody)s::uuid", where), values)


def _add_hours(span: Span) -> None:
    """Add all rows to hours, each tenant's and everybody's."""
    values = {"after": span.after, "upto": span.upto, "everybody": EVERYBODY}
    where = "id > %(after)s AND id <= %(upto)s"
    for whose in ("tenant_id", "%(everybody)s::uuid"):
        _run(_adding(f"{span.tables}hour", "hour", _HOUR, whose, _OF_HOURS, where), values)


def _adding(
    table: str, unit: str, when: str, whose: str, dimensions: Sequence[str], where: str
) -> str:
    """Lines of days or hours: added to those that are there."""
    by = grouping(dimensions)
    sums = ", ".join(SUMS)
    added = ", ".join(f"{name} = line.{name} + EXCLUDED.{name}" for name in SUMS)
    return f"""
        INSERT INTO {table} AS line (tenant_id, {unit}, dimension, key, {sums})
        SELECT whose, moment, {by.dimension}, {by.key}, {sums_of_rows()}
        FROM (
            SELECT *, {whose} AS whose, {when} AS moment {by.columns}
            FROM gateway_ledgerentry WHERE {where}
        ) AS entries
        GROUP BY whose, moment, GROUPING SETS ({by.sets})
        ON CONFLICT (tenant_id, dimension, {unit}, key) DO UPDATE SET {added}
    """  # noqa: S608 - words of ours


def _adding_conversations(tables: str, whose: str, where: str) -> str:
    return f"""
        INSERT INTO {tables}conversation AS line (tenant_id, day, conversation_id, cost_micros)
        SELECT {whose}, {_DAY}, conversation_id, sum(cost_micros)::bigint
        FROM gateway_ledgerentry WHERE {where} AND conversation_id IS NOT NULL
        GROUP BY 1, 2, 3
        ON CONFLICT (tenant_id, day, conversation_id) DO UPDATE
        SET cost_micros = line.cost_micros + EXCLUDED.cost_micros
    """  # noqa: S608 - words of ours


def _values(span: Span, time_zone: str, **more: Any) -> dict[str, Any]:
    """What a statement over days needs; empty where there are no rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(at), max(at) FROM gateway_ledgerentry WHERE id > %s AND id <= %s",
            [span.after, span.upto],
        )
        first, last = cursor.fetchone()
    if first is None:
        return {}
    period = Period(day_of(first, time_zone), day_of(last, time_zone), time_zone)
    days = {"days": period.days, "bounds": bounds(period)}
    return {"after": span.after, "upto": span.upto, **days, **more}


def _run(statement: str, values: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
