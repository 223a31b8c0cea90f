"""The figures of the cache pages: how often an answer was there already, and what that saved."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.text import slugify

from apps.gateway.caching.policy import BYPASSES
from apps.gateway.ledger import selectors
from apps.gateway.ledger.selectors import CacheLine, Period
from apps.ops.columns import ColumnChart, Figure, columns
from apps.ops.periods import Stretch, in_stretches

_TITLES: Mapping[str, tuple[str, str]] = {
    "response": ("Answers", "A question that was answered before, and nothing has changed since."),
    "question embedding": ("Vectors of questions", "A question that was searched with before."),
}


@dataclass(frozen=True)
class Bypass:
    """A reason for which the cache was not asked, and how often."""

    words: str
    count: int


@dataclass(frozen=True)
class CacheFigures:
    """One cache in the period."""

    title: str
    about: str
    line: CacheLine
    bypasses: list[Bypass]

    @property
    def found(self) -> int:
        return found_in(self.line)

    @property
    def bypassed(self) -> int:
        return sum(self.line.bypassed.values())

    @property
    def saved_s(self) -> float:
        return self.line.saved_ms / 1000

    @property
    def slug(self) -> str:
        return slugify(self.line.cache)

    @property
    def is_empty(self) -> bool:
        return not self.line.eligible and not self.bypassed


@dataclass(frozen=True)
class CacheSlice:
    """The response cache on one day, or in one month of a long period."""

    stretch: Stretch
    line: CacheLine

    @property
    def found(self) -> int:
        return found_in(self.line)

    @property
    def saved_s(self) -> float:
        return self.line.saved_ms / 1000

    @property
    def others(self) -> int:
        return self.line.misses + self.line.errors

    @property
    def bypassed(self) -> int:
        return sum(self.line.bypassed.values())


@dataclass(frozen=True)
class Caches:
    """Everything that a cache page shows of its period."""

    caches: list[CacheFigures]
    slices: list[CacheSlice]
    chart: ColumnChart | None  # None where there was nothing to ask the cache for

    @property
    def is_empty(self) -> bool:
        return all(each.is_empty for each in self.caches)


def read_caches(tenant_id: uuid.UUID | None, period: Period) -> Caches:
    """The period's figures. `tenant_id` None: of all tenants."""
    days = in_stretches(selectors.cache_days(tenant_id, period))
    slices = [CacheSlice(stretch, add_up(lines)) for stretch, lines in days]
    return Caches(
        caches=[_figures(line) for line in selectors.caches(tenant_id, period)],
        slices=slices,
        chart=cache_chart(slices) if any(each.line.eligible for each in slices) else None,
    )


def cache_chart(slices: Sequence[CacheSlice]) -> ColumnChart:
    """The eligible questions of each day: those found from the bottom, the others above."""
    return columns([_figure(each) for each in slices], lambda value: f"{value:,.10g}")


def add_up(lines: Sequence[CacheLine]) -> CacheLine:
    """Lines of one cache, at least one, together."""
    reasons = Counter[str]()
    for line in lines:
        reasons.update(line.bypassed)
    return CacheLine(
        cache=lines[0].cache,
        hits=sum(line.hits for line in lines),
        semantic=sum(line.semantic for line in lines),
        shared=sum(line.shared for line in lines),
        misses=sum(line.misses for line in lines),
        bypassed=dict(reasons),
        errors=sum(line.errors for line in lines),
        saved_micros=sum(line.saved_micros for line in lines),
        saved_ms=sum(line.saved_ms for line in lines),
    )


def found_in(line: CacheLine) -> int:
    """Whatever needed no call of its own."""
    return line.hits + line.semantic + line.shared


def _figures(line: CacheLine) -> CacheFigures:
    by_count = sorted(line.bypassed.items(), key=lambda each: (-each[1], each[0]))
    return CacheFigures(
        *_TITLES[line.cache],
        line=line,
        bypasses=[Bypass(bypass_words(reason), count) for reason, count in by_count],
    )


def bypass_words(reason: str) -> str:
    """A reason of the fixed set as people read it; the word itself where there are no others."""
    return BYPASSES.get(reason, reason.replace("_", " ")) or "for no reason that was noted"


def _figure(each: CacheSlice) -> Figure:
    words = f"{each.found:,} of {each.line.eligible:,}"
    return Figure(
        parts=(each.found, each.others),
        words=f"{each.stretch.words}: {words} eligible found",
        short=words,
        tick=each.stretch.tick,
        anchor=each.stretch.anchor,
    )
