"""The requests of one point over time: a row each, from when it was wanted to its last piece.

Bounded: as many rows as are asked for, and no two marks of a row closer than can be told apart.
"""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from apps.capacity.load.measures import Record
from apps.capacity.showing.words import milliseconds
from apps.evals.charts import Tick

WIDTH = 1000  # a row's own units across
HEIGHT = 12
# A thousandth of a row is about a pixel on a desk: pieces closer than that are one mark.
_CLOSEST = 1.0
_STALL = 3.0  # a gap this many times the median is marked
OUTCOMES = {
    "complete": "complete",
    "failed": "failed",
    "timed_out": "timed out",
    "refused": "refused",
    "unsent": "not sent",
}
READ_MAX = 5000  # requests
_READ_MAX_BYTES = 256 * 1024 * 1024  # of records without their compression
_BINS = 24


@dataclass(frozen=True)
class Bar:
    """A stretch of a row, in its units."""

    x: float
    width: float
    kind: str  # waiting, stream, stall or lost


@dataclass(frozen=True)
class Lane:
    """One request."""

    record: Record
    bars: tuple[Bar, ...]
    pieces: str  # an SVG path with a mark for each piece of text
    broke: str  # an SVG path where it broke off, "" where it did not
    ttft_ms: float | None
    longest_gap_ms: float | None

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.record.outcome]


@dataclass(frozen=True)
class Timeline:
    """Some of a point's requests, on one axis of time."""

    lanes: tuple[Lane, ...]
    begin_s: float
    end_s: float
    ticks: tuple[Tick, ...]  # in percent
    first: int  # place of the first of them, from 0
    total: int  # requests that were read

    @property
    def last(self) -> int:
        return self.first + len(self.lanes)


@dataclass(frozen=True)
class Bin:
    """Gaps from `low_ms` on, below `high_ms`; `share` of the tallest bar, logarithmic."""

    low_ms: float
    high_ms: float
    count: int
    share: float

    @property
    def height(self) -> float:
        return round(100 * self.share, 1)

    @property
    def top(self) -> float:
        return round(100 - self.height, 1)

    @property
    def title(self) -> str:
        return f"{milliseconds(self.low_ms)} to {milliseconds(self.high_ms)}: {self.count:,}"


def read_records(packed: bytes) -> list[Record]:
    """The first READ_MAX requests of what a point keeps; fewer where the rest cannot be read."""
    return list(_records(packed))


def timeline(records: Sequence[Record], *, first: int, rows: int) -> Timeline:
    """`rows` requests from place `first` on, on an axis that just holds them."""
    first = max(0, min(first, max(0, len(records) - 1)))
    shown = records[first : first + rows]
    begin = min((record.intended_s for record in shown), default=0.0)
    end = max((_end(record) for record in shown), default=1.0)
    end = end if end > begin else begin + 1.0
    median = statistics.median(_gaps(shown) or [0.0])
    return Timeline(
        lanes=tuple(_lane(record, begin, end, median) for record in shown),
        begin_s=begin,
        end_s=end,
        ticks=tuple(_ticks(begin, end)),
        first=first,
        total=len(records),
    )


def histogram(records: Sequence[Record]) -> list[Bin]:
    """How often gaps between pieces of text were how long, in bins of equal ratio."""
    gaps = [gap * 1000 for gap in _gaps(records) if gap > 0]
    if not gaps:
        return []
    low, high = min(gaps), max(gaps)
    ratio = max((high / low) ** (1 / _BINS), 1.02)
    counts = [0] * _BINS
    for gap in gaps:
        counts[min(int(math.log(gap / low) / math.log(ratio) + 1e-9), _BINS - 1)] += 1
    most = math.log1p(max(counts))
    return [
        Bin(low * ratio**n, low * ratio ** (n + 1), count, math.log1p(count) / most)
        for n, count in enumerate(counts)
    ]


def _records(packed: bytes) -> Iterator[Record]:
    if not packed:
        return
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(packed, _READ_MAX_BYTES)
    except zlib.error:
        return
    for line in text.splitlines()[:READ_MAX]:
        try:
            yield Record.model_validate_json(line)
        except ValidationError:
            return


def _lane(record: Record, begin: float, end: float, median: float) -> Lane:
    def across(moment: float) -> float:
        return round(WIDTH * (moment - begin) / (end - begin), 1)

    def bar(start: float, stop: float, kind: str) -> Bar:
        x = across(start)
        return Bar(x, round(max(across(stop) - x, 0.5), 1), kind)

    complete = record.outcome == "complete"
    gaps = _gaps([record])
    bars = []
    if record.first_s is not None:
        bars.append(bar(record.intended_s, record.first_s, "waiting"))
        bars.append(bar(record.first_s, record.last_s or record.first_s, "stream"))
        bars += [bar(start, stop, "stall") for start, stop in _stalls(record, median)]
    else:
        bars.append(bar(record.intended_s, _end(record), "waiting" if complete else "lost"))
    return Lane(
        record=record,
        bars=tuple(bars),
        pieces=_marks([across(piece) for piece in record.pieces_s]),
        broke="" if complete else _cross(across(_end(record))),
        ttft_ms=None if record.first_s is None else 1000 * (record.first_s - record.intended_s),
        longest_gap_ms=1000 * max(gaps) if gaps else None,
    )


def _stalls(record: Record, median: float) -> Iterator[tuple[float, float]]:
    for start, stop in zip(record.pieces_s, record.pieces_s[1:], strict=False):
        if median > 0 and stop - start > _STALL * median:
            yield start, stop


def _cross(place: float) -> str:
    """Narrow, for a row is drawn out to the width of the page."""
    x = min(max(place, 6.0), WIDTH - 6.0)
    return f"M{x - 5:g} 1L{x + 5:g} 11M{x + 5:g} 1L{x - 5:g} 11"


def _marks(places: Sequence[float]) -> str:
    marks, last = [], -math.inf
    for place in places:
        if place - last >= _CLOSEST:
            marks.append(f"M{place:g} 1v{HEIGHT - 2}")
            last = place
    return "".join(marks)


def _ticks(begin: float, end: float) -> Iterator[Tick]:
    wide = (end - begin) / 5
    power = 10.0 ** math.floor(math.log10(wide))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= wide * 0.999)
    first, last = math.ceil(begin / step - 1e-9), math.floor(end / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    for n in range(first, last + 1):
        at = round(100 * (n * step - begin) / (end - begin), 2)
        yield Tick(at, f"{n * step:.{digits}f} s")


def _gaps(records: Sequence[Record]) -> list[float]:
    return [
        stop - start
        for record in records
        for start, stop in zip(record.pieces_s, record.pieces_s[1:], strict=False)
    ]


def _end(record: Record) -> float:
    known = (record.end_s, record.last_s, record.first_s, record.sent_s, record.intended_s)
    return max(moment for moment in known if moment is not None)
