"""Figures out of the ledger: rollups for what is past, the ledger itself for what has just come.

`tenant_id` None is for operations: all tenants together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from django.db.models import QuerySet
from django.utils import timezone

from apps.gateway.ledger.days import Period, month_of
from apps.gateway.ledger.lines import (
    Sum,
    read_conversations,
    read_days,
    read_dearest,
    read_hours,
    read_lines,
)
from apps.gateway.ledger.measures import ALL, CACHE, CACHE_SEPARATOR, Dimension
from apps.gateway.models import LedgerEntry
from apps.gateway.types import CacheResult

__all__ = [
    "CacheLine",
    "Dimension",
    "Line",
    "PerUnit",
    "Period",
    "Projection",
    "Sums",
    "by",
    "by_each",
    "cache_days",
    "caches",
    "dearest",
    "hours",
    "per_unit",
    "projection",
    "rows",
    "totals",
]

# Sooner, a month's beginning would be multiplied by more than 120.
_LEAST_MEASURED = timedelta(hours=6)
_PAGE = 2000  # rows of an export that are read at once
_CACHES: dict[str, Literal["response", "question embedding"]] = {
    "generate": "response",
    "embed": "question embedding",
}


@dataclass(frozen=True)
class Sums:
    """What calls add up to."""

    calls: int = 0
    answers: int = 0  # rows of hop `generate`: what people and programs asked for
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced_calls: int = 0  # that reached an upstream without a price: cost unknown, not nothing
    estimated_calls: int = 0  # whose tokens were counted here
    saved_micros: int = 0
    saved_ms: float = 0.0
    failed: int = 0  # failed, timed out or lost
    queue_ms: float = 0.0  # waited for places at upstreams, all together
    first_token_ms: float = 0.0  # of all `first_token_calls` together
    first_token_calls: int = 0
    total_ms: float = 0.0

    @property
    def mean_first_token_ms(self) -> float | None:
        """Until a token was shown, on average; None where none was."""
        return self.first_token_ms / self.first_token_calls if self.first_token_calls else None


@dataclass(frozen=True)
class Line:
    """One line of a table: `key` is the dimension's value (an ISO date, an id, an alias)."""

    key: str  # "" where it does not apply (no key: a person asked); "several" for collections
    sums: Sums


@dataclass(frozen=True)
class CacheLine:
    """One cache: eligible = hits + misses; what was bypassed is beside it, by reason."""

    cache: Literal["response", "question embedding"]
    hits: int  # exact
    semantic: int
    shared: int
    misses: int
    bypassed: dict[str, int]
    errors: int
    saved_micros: int
    saved_ms: float

    @property
    def eligible(self) -> int:
        return self.hits + self.semantic + self.shared + self.misses + self.errors

    @property
    def hit_ratio(self) -> float | None:
        """Of the eligible, those that needed no call; None without any."""
        found = self.hits + self.semantic + self.shared
        return found / self.eligible if self.eligible else None


@dataclass(frozen=True)
class PerUnit:
    """Cost per answer and per conversation; None where there is none to divide by."""

    answers: int
    micros_per_answer: float | None
    conversations: int
    micros_per_conversation: float | None


@dataclass(frozen=True)
class Projection:
    """What the month will have cost if it goes on like this."""

    spent_micros: int
    projected_micros: int | None  # None in the first hours, when it would mean nothing
    days_measured: float
    days_in_month: int


def totals(tenant_id: uuid.UUID | None, period: Period) -> Sums:
    """Everything of the period."""
    found = read_lines(tenant_id, period)[ALL]
    return _sums(found[0][1]) if found else Sums()


def by(tenant_id: uuid.UUID | None, period: Period, dimension: Dimension) -> list[Line]:
    """The period's sums by one dimension: days in order (those without calls too), others dearest
    first."""
    if dimension == "day":
        found = {day: _sums(sums) for day, _, sums in read_days(tenant_id, period)}
        return [Line(day.isoformat(), found.get(day, Sums())) for day in period.days]
    return by_each(tenant_id, period, [dimension])[dimension]


def by_each(
    tenant_id: uuid.UUID | None, period: Period, dimensions: Sequence[Dimension]
) -> dict[Dimension, list[Line]]:
    """`by` of several dimensions, days not among them, for little more than one of them takes."""
    # A tenant's own rollups have no dimension of tenants.
    stored = {each: ALL if each == "tenant" and tenant_id else each for each in dimensions}
    found = read_lines(tenant_id, period, sorted(set(stored.values())))
    lines = {
        each: [Line(key, _sums(sums)) for key, sums in found[name]] for each, name in stored.items()
    }
    if tenant_id is not None and "tenant" in lines:
        lines["tenant"] = [Line(str(tenant_id), line.sums) for line in lines["tenant"]]
    return lines


def hours(tenant_id: uuid.UUID | None, begins: datetime, count: int) -> list[tuple[datetime, Sums]]:
    """`count` hours of UTC from the one that `begins` is in, those without calls too."""
    first = begins.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    each = [first + timedelta(hours=n) for n in range(count)]
    found = read_hours(tenant_id, first, first + timedelta(hours=count))
    return [(hour, _sums(found[hour]) if hour in found else Sums()) for hour in each]


def caches(tenant_id: uuid.UUID | None, period: Period) -> list[CacheLine]:
    """What each cache did in the period."""
    found = read_lines(tenant_id, period, [CACHE])[CACHE]
    return [_cache_line(hop, found) for hop in _CACHES]


def cache_days(tenant_id: uuid.UUID | None, period: Period) -> list[tuple[date, CacheLine]]:
    """The response cache day by day."""
    days: dict[date, list[tuple[str, Sum]]] = {day: [] for day in period.days}
    for day, key, sums in read_days(tenant_id, period, CACHE):
        days[day].append((key, sums))
    return [(day, _cache_line("generate", found)) for day, found in days.items()]


def per_unit(tenant_id: uuid.UUID | None, period: Period) -> PerUnit:
    """Everything that was spent, over the answers; and what conversations cost, over them."""
    sums = totals(tenant_id, period)
    conversations, micros = read_conversations(tenant_id, period)
    return PerUnit(
        answers=sums.answers,
        micros_per_answer=sums.cost_micros / sums.answers if sums.answers else None,
        conversations=conversations,
        micros_per_conversation=micros / conversations if conversations else None,
    )


def dearest(tenant_id: uuid.UUID | None, period: Period, limit: int = 20) -> list[LedgerEntry]:
    """The dearest calls."""
    entries = LedgerEntry.objects.in_bulk(read_dearest(tenant_id, period, limit))
    return sorted(entries.values(), key=lambda entry: (-entry.cost_micros, -entry.id))


def projection(tenant_id: uuid.UUID, time_zone: str) -> Projection:
    """The running month of a tenant.

    The rest of the month at the pace so far: since it began, or since the tenant's first call.
    """
    now = timezone.now()
    month = month_of(now, time_zone)
    spent = totals(tenant_id, month).cost_micros
    since = max(month.begins, _first_call(tenant_id) or now)
    measured, left = now - since, month.ends - now
    return Projection(
        spent_micros=spent,
        projected_micros=(
            spent + round(spent * (left / measured)) if measured >= _LEAST_MEASURED else None
        ),
        days_measured=measured / timedelta(days=1),
        days_in_month=len(month.days),
    )


def rows(tenant_id: uuid.UUID | None, period: Period) -> Iterator[LedgerEntry]:
    """Every row of the period in the order of its booking, for the export.

    Read a page at a time, each by a query of its own: no cursor, so that pages may be read by
    different threads, and no transaction that would stay open while somebody downloads.
    """
    entries, last = _entries(tenant_id, period).order_by("id"), 0
    while page := list(entries.filter(id__gt=last)[:_PAGE]):
        yield from page
        last = page[-1].id


def _entries(tenant_id: uuid.UUID | None, period: Period) -> QuerySet[LedgerEntry]:
    entries = LedgerEntry.objects.filter(at__gte=period.begins, at__lt=period.ends)
    return entries if tenant_id is None else entries.filter(tenant_id=tenant_id)


def _first_call(tenant_id: uuid.UUID) -> datetime | None:
    calls = LedgerEntry.objects.filter(tenant_id=tenant_id).order_by("at")
    return calls.values_list("at", flat=True).first()


def _sums(sums: Sum) -> Sums:
    counted = {name: value for name, value in sums.items() if not name.endswith("_us")}
    return Sums(
        **counted,
        saved_ms=sums["saved_us"] / 1000,
        queue_ms=sums["queue_us"] / 1000,
        first_token_ms=sums["first_token_us"] / 1000,
        total_ms=sums["total_us"] / 1000,
    )


def _cache_line(hop: str, found: list[tuple[str, Sum]]) -> CacheLine:
    of_hop = [
        (CacheResult(result), reason, sums)
        for key, sums in found
        for its_hop, result, reason in [key.split(CACHE_SEPARATOR, 2)]
        if its_hop == hop
    ]

    def calls(wanted: CacheResult) -> int:
        return sum(sums["calls"] for result, _, sums in of_hop if result is wanted)

    return CacheLine(
        cache=_CACHES[hop],
        hits=calls(CacheResult.HIT),
        semantic=calls(CacheResult.SEMANTIC),
        shared=calls(CacheResult.SHARED),
        misses=calls(CacheResult.MISS),
        bypassed={
            reason: sums["calls"]
            for result, reason, sums in of_hop
            if result is CacheResult.BYPASSED
        },
        errors=calls(CacheResult.ERROR),
        saved_micros=sum(sums["saved_micros"] for _, _, sums in of_hop),
        saved_ms=sum(sums["saved_us"] for _, _, sums in of_hop) / 1000,
    )
