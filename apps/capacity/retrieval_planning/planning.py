"""A plan of retrieval: bytes by formula, time and recall from what was measured here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apps.capacity.arithmetic.derived import Derived, given
from apps.capacity.retrieval_planning.fits import Crossing, Fit
from apps.capacity.retrieval_planning.measured import Curves
from apps.capacity.retrieval_planning.points import Point
from apps.capacity.retrieval_planning.queueing import busy_share, most_per_s, wait_p95_s
from apps.capacity.retrieval_planning.sizes import Storage, build_memory, vector_bytes

Way = Literal["exact", "hnsw"]
Trust = Literal["measured", "extrapolated", "beyond"]


@dataclass(frozen=True)
class Wish:
    """What is planned for. Shares are 0 to 1."""

    passages: int  # of all tenants
    largest: int  # of the largest tenant
    dimensions: int
    storage: Storage
    m: int
    ef_search: int
    per_s: float  # searches a second at the busiest
    promise_ms: float  # p95 of a search
    recall: float  # recall@k wanted
    replicas: int  # copies of the database beside the first
    memory_bytes: int  # of one database machine
    cores: int  # of one database machine
    memory_share: float  # of it, for PostgreSQL's and the system's caches: an assumption
    busy_most: float  # of a core's time: an assumption
    text_bytes: float  # a passage: documents, pages, passages
    word_bytes: float  # a passage: BM25
    bytes_origin: str  # where those two are from
    exact_up_to: int  # passages of a tenant that are searched exactly


@dataclass(frozen=True)
class Part:
    """What one kind of rows takes."""

    name: str
    each: Derived  # bytes a passage
    passages: int
    in_memory: bool  # what a search reads; the text of a hit is a few pages a question

    @property
    def total(self) -> float:
        return self.each.value * self.passages


@dataclass(frozen=True)
class Memory:
    """Bytes, of one copy and of all."""

    parts: tuple[Part, ...]
    disk: Derived  # of one copy
    all_disk: Derived
    working_set: Derived  # what searches read again and again
    usable: Derived
    build: Derived | None  # memory of the largest index's build

    @property
    def fits(self) -> bool:
        return self.working_set.value <= self.usable.value


@dataclass(frozen=True)
class Latency:
    """p95 of a search of the largest tenant, asked alone, and where the promise breaks."""

    way: Way
    line: Fit
    ms: Derived
    low_ms: float  # 95 % prediction interval
    high_ms: float
    promise_ms: float
    trust: Trust
    crossing: Crossing

    @property
    def keeps(self) -> Literal["yes", "perhaps", "no"]:
        """By the band: `perhaps` where the promise is within it."""
        if self.high_ms <= self.promise_ms:
            return "yes"
        return "no" if self.low_ms > self.promise_ms else "perhaps"


@dataclass(frozen=True)
class Rate:
    """What one database machine carries."""

    per_s: float  # wished for
    busy: Derived  # utilisation at the rate wished for
    wait: Derived | None  # p95 of the wait for a core; None: it never ends
    most: Derived  # searches a second that keep the promise

    @property
    def machines(self) -> int | None:
        """So many are needed; None: no number of them keeps the promise."""
        if self.most.value <= 0:
            return None
        return max(1, math.ceil(self.per_s / self.most.value))


@dataclass(frozen=True)
class Recall:
    """What was measured of HNSW's recall, and what that says about the size planned for."""

    nearest: Point | None  # the smallest measured size that is not below, or the largest
    is_within: bool  # the planned size was measured, or lies between measured ones
    goal: float

    @property
    def words(self) -> str:
        point = self.nearest
        if point is None or point.recall is None:
            return "Not measured."
        figures = (
            f"{point.recall:.3f} ({point.recall_low:.3f} to {point.recall_high:.3f}) at "
            f"{point.passages:,} passages, over {point.searches} searches"
        )
        if self.is_within:
            return f"At least about {figures}: recall falls as an index grows."
        return (
            f"At most about {figures}: a larger index finds less at the same ef_search. How much "
            "less is not known before it is measured."
        )

    @property
    def keeps(self) -> Literal["yes", "unknown", "no"]:
        point = self.nearest
        if point is None or point.recall_low is None or point.recall_high is None:
            return "unknown"
        if point.recall_high < self.goal:
            return "no"
        return "yes" if self.is_within and point.recall_low >= self.goal else "unknown"


@dataclass(frozen=True)
class Plan:
    wish: Wish
    way: Way
    memory: Memory
    latency: Latency | None  # None: nothing was measured at these dimensions
    rate: Rate | None
    recall: Recall | None  # None: exact search misses nothing


def make_plan(wish: Wish, curves: Curves | None) -> Plan:
    """Of one wish; `curves` None, or without lines: bytes alone."""
    way: Way = "exact" if wish.largest <= wish.exact_up_to else "hnsw"
    line, work = (curves.p95(way), curves.work(way)) if curves else (None, None)
    latency = _latency(wish, way, line) if line else None
    return Plan(
        wish=wish,
        way=way,
        memory=_memory(wish, way),
        latency=latency,
        rate=_rate(wish, work, latency) if work and latency else None,
        recall=_recall(wish, curves.hnsw) if curves and way == "hnsw" else None,
    )


def _memory(wish: Wish, way: Way) -> Memory:
    vectors = vector_bytes(dimensions=wish.dimensions, storage=wish.storage, m=wish.m)
    text = Derived(wish.text_bytes, "bytes", wish.bytes_origin)
    words = Derived(wish.word_bytes, "bytes", wish.bytes_origin)
    count = wish.passages
    exact = way == "exact"
    parts = [
        Part("Text: documents, pages, passages", text, count, in_memory=False),
        Part("Words: BM25 rows and their indexes", words, count, in_memory=True),
        # Signs are scored again by their halves, which are read for the candidates alone.
        Part("Vectors", vectors.table, count, in_memory=exact),
        Part("Btrees over vectors", vectors.btrees, count, in_memory=True),
    ]
    if not exact:
        parts.append(Part("HNSW index", vectors.hnsw, count, in_memory=True))
    disk = sum(part.total for part in parts)
    read = [part for part in parts if part.in_memory]
    copies = 1 + wish.replicas
    return Memory(
        parts=tuple(parts),
        disk=Derived(
            disk, "bytes", "sum of bytes a passage × passages", (given("passages", count),)
        ),
        all_disk=Derived(
            disk * copies, "bytes", "disk of one copy × copies", (given("copies", copies),)
        ),
        working_set=Derived(
            sum(part.total for part in read),
            "bytes",
            "sum of " + ", ".join(part.name.partition(":")[0].lower() for part in read),
            note="What every search may read. The text is read for the passages found alone.",
        ),
        usable=Derived(
            wish.memory_bytes * wish.memory_share,
            "bytes",
            "memory of the machine × share for caches",
            (
                given("memory", wish.memory_bytes, "bytes"),
                given("share", f"{wish.memory_share:.0%}"),
            ),
        ),
        build=None
        if exact
        else build_memory(
            passages=wish.largest, dimensions=wish.dimensions, storage=wish.storage, m=wish.m
        ),
    )  # fmt: skip


def _latency(wish: Wish, way: Way, line: Fit) -> Latency:
    ms = line.at(wish.largest)
    low, high = line.band(wish.largest)
    return Latency(
        way=way,
        line=line,
        ms=Derived(
            ms,
            "ms",
            f"{line.formula} = {ms:,.3g} ms",
            (
                given("passages of the largest tenant", wish.largest),
                given("promise", f"{wish.promise_ms:g} ms"),
                given("measured", f"{line.smallest:,} to {line.largest:,} passages"),
            ),
        ),
        low_ms=low,
        high_ms=high,
        promise_ms=wish.promise_ms,
        trust=_trust(line, wish.largest),
        crossing=line.crosses(wish.promise_ms),
    )


def _trust(line: Fit, passages: float) -> Trust:
    if line.smallest <= passages <= line.largest:
        return "measured"
    return "extrapolated" if line.smallest / 10 <= passages <= line.trusted_to else "beyond"


def _rate(wish: Wish, work: Fit, latency: Latency) -> Rate:
    service_s = work.at(wish.largest) / 1000
    load = given("searches", wish.per_s, "a second")
    inputs = (load, given("work", service_s * 1000, "ms of a core"), given("cores", wish.cores))
    wait = wait_p95_s(per_s=wish.per_s, service_s=service_s, cores=wish.cores)
    busy = busy_share(per_s=wish.per_s, service_s=service_s, cores=wish.cores)
    most = most_per_s(
        service_s=service_s,
        cores=wish.cores,
        p95_s=latency.ms.value / 1000,
        promise_s=wish.promise_ms / 1000,
        busy_most=wish.busy_most,
    )
    return Rate(
        per_s=wish.per_s,
        busy=Derived(busy, "", "searches a second × seconds of a core each / cores", inputs),
        wait=None
        if math.isinf(wait)
        else Derived(
            wait * 1000,
            "ms",
            "ln(C / 0.05) / (cores / work − searches), C = share that waits (Erlang)",
            inputs,
            note="For times that vary as much as exponential ones; real ones vary less.",
            bound="at most",
        ),
        most=Derived(
            most,
            "searches a second",
            "the highest load at which p95 alone + p95 of the wait keeps the promise and no core "
            f"is busier than {wish.busy_most:.0%}",
            (*inputs[1:], given("p95 alone", latency.ms.value, "ms"),
             given("promise", f"{wish.promise_ms:g} ms")),
        ),
    )  # fmt: skip


def _recall(wish: Wish, points: Sequence[Point]) -> Recall:
    known = sorted((p for p in points if p.recall is not None), key=lambda p: p.passages)
    if not known:
        return Recall(None, is_within=False, goal=wish.recall)
    above = [point for point in known if point.passages >= wish.largest]
    return Recall(above[0] if above else known[-1], is_within=bool(above), goal=wish.recall)
