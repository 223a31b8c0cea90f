"""Figures out of the ledger: rollups for what is past, the ledger itself for what has just come.

`tenant_id` None is for operations: all tenants together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal

from apps.gateway.models import LedgerEntry

Dimension = Literal[
    "day", "tenant", "model", "user", "key", "collection", "source", "upstream", "hop"
]


@dataclass(frozen=True)
class Period:
    """Whole days, both included, where the tenant is (UTC for operations)."""

    first: date
    last: date
    time_zone: str = "UTC"


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
    raise NotImplementedError


def by(tenant_id: uuid.UUID | None, period: Period, dimension: Dimension) -> list[Line]:
    """The period's sums by one dimension: days in order (those without calls too), others dearest
    first."""
    raise NotImplementedError


def caches(tenant_id: uuid.UUID | None, period: Period) -> list[CacheLine]:
    """What each cache did in the period."""
    raise NotImplementedError


def cache_days(tenant_id: uuid.UUID | None, period: Period) -> list[tuple[date, CacheLine]]:
    """The response cache day by day."""
    raise NotImplementedError


def per_unit(tenant_id: uuid.UUID | None, period: Period) -> PerUnit:
    raise NotImplementedError


def dearest(tenant_id: uuid.UUID | None, period: Period, limit: int = 20) -> list[LedgerEntry]:
    """The dearest calls."""
    raise NotImplementedError


def projection(tenant_id: uuid.UUID, time_zone: str) -> Projection:
    """The running month of a tenant."""
    raise NotImplementedError


def rows(tenant_id: uuid.UUID | None, period: Period) -> Iterator[LedgerEntry]:
    """Every row of the period, oldest first, a few at a time: for the export."""
    raise NotImplementedError
