"""A load test read from its row, and its points by load. What cannot be read is left out, said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from apps.capacity.load.measures import Client, Figures, Percentiles
from apps.capacity.load.types import Target, Workload
from apps.capacity.loadtests.plan import Knee, Plan
from apps.capacity.models import LoadPoint, LoadTest
from apps.capacity.showing.spreads import Spread, spread_of

Part = TypeVar("Part", bound=BaseModel)
RATES = ("offered_per_s", "requests_per_s", "goodput_per_s", "output_per_s", "input_per_s")
TIMES = ("ttft", "tpot", "itl", "e2e")
PERCENTILES = ("p50_ms", "p95_ms", "p99_ms")
# Above this share of prompt tokens, a server's cache has answered what was to be computed: vLLM's
# own benchmark warns from here on (its PR 53920).
CACHE_WARNING = 0.01


@dataclass(frozen=True)
class Measured:
    """One point with its figures."""

    id: int
    number: int
    purpose: str
    load: float
    repeat: int
    figures: Figures
    has_records: bool

    @property
    def prefix_share(self) -> float | None:
        """Of the prompts' tokens, those that the server took from its cache: as it told with its
        answers or as its own counters grew meanwhile, whichever is more; None: it told nothing."""
        told = (self.figures.cached_share, self.figures.server.get("prefix_hit_share"))
        return max((each for each in told if each is not None and 0 <= each <= 1), default=None)

    @property
    def is_flattered(self) -> bool:
        return (self.prefix_share or 0.0) > CACHE_WARNING

    @property
    def late_ms(self) -> float:
        """How late the generator was at p99: with its timers or its sending."""
        return max(self.figures.client.lag_p99_ms, self.figures.client.late_p99_ms)


@dataclass(frozen=True)
class Row:
    """One load with all its repeats; `wanted` is the share of good requests that is promised."""

    load: float
    points: tuple[Measured, ...]
    wanted: float | None = None

    def total(self, name: str) -> int:
        return sum(int(getattr(point.figures, name)) for point in self.points)

    def spread(self, of: Callable[[Figures], float | None]) -> Spread | None:
        found = (of(point.figures) for point in self.points)
        return spread_of([value for value in found if value is not None])

    def time(self, name: str, percentile: str) -> Spread | None:
        """`name` of TIMES, `percentile` a field of Percentiles; milliseconds."""
        return self.spread(lambda figures: _percentile(getattr(figures, name), percentile))

    @cached_property
    def times(self) -> dict[str, dict[str, Spread | None]]:
        return {name: {at: self.time(name, at) for at in PERCENTILES} for name in TIMES}

    @cached_property
    def rates(self) -> dict[str, Spread | None]:
        return {name: self.spread(attrgetter(name)) for name in RATES}

    @property
    def requests(self) -> int:
        return self.total("requests")

    @property
    def complete(self) -> int:
        return self.total("complete")

    @property
    def failed(self) -> int:
        return self.total("failed")

    @property
    def failed_share(self) -> float | None:
        return self.failed / self.requests if self.requests else None

    @cached_property
    def errors(self) -> list[tuple[str, int]]:
        """By code, the most frequent first."""
        found: Counter[str] = Counter()
        for point in self.points:
            found.update(point.figures.errors)
        return found.most_common()

    @property
    def good_share(self) -> float | None:
        """Of all repeats' requests together; None where nothing was promised."""
        good = [p.figures.good for p in self.points if p.figures.good is not None]
        asked = sum(p.figures.requests for p in self.points if p.figures.good is not None)
        return sum(good) / asked if asked else None

    @property
    def is_trustworthy(self) -> bool:
        return all(point.figures.client.is_trustworthy for point in self.points)

    @property
    def is_flattered(self) -> bool:
        return any(point.is_flattered for point in self.points)

    @property
    def is_stopped(self) -> bool:
        return any(point.figures.stopped for point in self.points)

    @property
    def kept(self) -> bool | None:
        """Whether the promises are kept; None where none was given."""
        if self.good_share is None or self.wanted is None:
            return None
        return self.good_share >= self.wanted


@dataclass(frozen=True)
class Whole:
    """A load test with its parts; None: that part of the row is not what it should be."""

    test: LoadTest
    target: Target | None
    workload: Workload | None
    plan: Plan | None
    knee: Knee | None
    rows: tuple[Row, ...] = ()
    self_test: Figures | None = None
    unreadable: int = 0  # points
    ended: str = ""  # why not all of the plan was done

    @property
    def arrivals(self) -> str:
        """ "" where the plan cannot be read."""
        return self.plan.arrivals if self.plan else ""

    @property
    def points(self) -> list[Measured]:
        return sorted((p for row in self.rows for p in row.points), key=lambda p: p.number)

    @property
    def wants_prefixes(self) -> bool:
        """Whether prompts were to begin alike, so that cache hits are what is studied."""
        return bool(self.workload and self.workload.shared_prefix_tokens)

    @property
    def clients(self) -> list[Client]:
        return [point.figures.client for point in self.points]

    def row_at(self, load: float | None) -> Row | None:
        if load is None:
            return None
        return next((row for row in self.rows if _same(row.load, load)), None)


def whole(test: LoadTest, points: Iterable[LoadPoint] = ()) -> Whole:
    """`test` with what can be read of it. `points` may have deferred their records, and `test` its
    workload, which may be a trace of megabytes."""
    is_deferred = "workload" in test.get_deferred_fields()
    readable, self_test, unreadable = [], None, 0
    for point in points:
        figures = _part(Figures, point.figures)
        if figures is None:
            unreadable += 1
        elif point.purpose == LoadPoint.Purpose.SELF_TEST:
            self_test = figures
        else:
            readable.append(measured(point, figures))
    result = test.result if isinstance(test.result, dict) else {}
    plan = _part(Plan, test.plan)
    return Whole(
        test=test,
        target=_part(Target, test.target),
        workload=None if is_deferred else _part(Workload, test.workload),
        plan=plan,
        knee=_part(Knee, result.get("knee")),
        rows=_by_load(readable, plan.promises.share if plan else None),
        self_test=self_test,
        ended=str(result.get("ended") or ""),
        unreadable=unreadable,
    )


def measured(point: LoadPoint, figures: Figures) -> Measured:
    has_records = getattr(point, "has_records", None)
    return Measured(
        id=point.id,
        number=point.number,
        purpose=point.purpose,
        load=point.load,
        repeat=point.repeat,
        figures=figures,
        has_records=bool(point.records) if has_records is None else bool(has_records),
    )


def figures_of(point: LoadPoint) -> Figures | None:
    return _part(Figures, point.figures)


def _by_load(points: Sequence[Measured], wanted: float | None) -> tuple[Row, ...]:
    rows: list[list[Measured]] = []
    for point in sorted(points, key=lambda p: (p.load, p.number)):
        if rows and _same(rows[-1][0].load, point.load):
            rows[-1].append(point)
        else:
            rows.append([point])
    return tuple(Row(row[0].load, tuple(row), wanted) for row in rows)


def _same(load: float, other: float) -> bool:
    """Loads that a search computed may differ in the last digits."""
    return abs(load - other) <= 1e-9 * max(abs(load), abs(other))


def _percentile(times: Percentiles | None, name: str) -> float | None:
    return None if times is None else float(getattr(times, name))


def _part(kind: type[Part], value: Any) -> Part | None:
    if not value:
        return None
    try:
        return kind.model_validate(value)
    except ValidationError:
        return None
