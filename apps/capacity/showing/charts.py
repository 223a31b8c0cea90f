"""A load test as charts: what happens, upwards, at which load, across."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.capacity.load.types import Promises
from apps.capacity.loadtests.plan import Knee
from apps.capacity.showing.rows import Row, Whole
from apps.capacity.showing.spreads import Spread
from apps.capacity.showing.words import figure, load_words, milliseconds
from apps.evals.charts import Axis, Chart, Reading, Series, draw, share_axis

TIME_TITLES = {
    "ttft": "Time to the first token",
    "tpot": "Time for each token after the first",
    "itl": "Gaps between pieces of text",
    "e2e": "Time to the whole answer",
}
_CALLED = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99"}
_WIDE = 8.0  # an axis whose ends are further apart than this is logarithmic
_LEAST_MS = 0.01  # a logarithmic axis has no zero
_TICKS_MAX = 7


@dataclass(frozen=True)
class TimeChart:
    """The percentiles of one time, with the rows that the table below repeats."""

    name: str
    title: str
    chart: Chart
    rows: tuple[tuple[Row, dict[str, Spread | None]], ...]

    @property
    def label(self) -> str:
        return f"{self.title}: p50, p95 and p99 over the load, as in the table below"


def time_chart(whole: Whole, name: str) -> TimeChart | None:
    """p50, p95 and p99 of `name` (of rows.TIMES) over the load; None where nothing is known."""
    readings = [
        (row, at, spread)
        for row in whole.rows
        for at, spread in row.times[name].items()
        if spread is not None
    ]
    if not readings or whole.plan is None:
        return None
    promise = _promise(whole.plan.promises, name)
    series = [
        Series(
            called, [_time_reading(whole, row, called, s) for row, at, s in readings if at == key]
        )
        for key, called in _CALLED.items()
    ]
    values = [v for _, _, s in readings for v in (s.value, s.high or s.value)]
    axis = time_axis([*values, *([promise] if promise else [])])
    series = [_within(each, axis) for each in series]
    chart = draw(
        series,
        x=load_axis(whole),
        y=axis,
        marks=_knee_marks(whole.knee),
        levels=[(promise, f"promised: {milliseconds(promise)}")] if promise else [],
        bands=_knee_bands(whole.knee),
    )
    rows = tuple((row, row.times[name]) for row in whole.rows)
    return TimeChart(name, TIME_TITLES[name], chart, rows)


def rate_chart(whole: Whole) -> Chart | None:
    """Requests a second over the load: completed, and of these the good ones."""
    lines = [("completed", "requests_per_s"), ("kept every promise", "goodput_per_s")]
    return _rates(whole, lines, "requests a second")


def token_chart(whole: Whole) -> Chart | None:
    """Output tokens a second over the load."""
    return _rates(whole, [("output tokens", "output_per_s")], "tokens a second")


def share_chart(whole: Whole) -> Chart | None:
    """Shares of all requests over the load: good ones, and failed ones."""
    if not whole.rows or whole.plan is None:
        return None
    failed = [_share(whole, row, "failed", row.failed_share) for row in whole.rows]
    good = [_share(whole, row, "kept every promise", row.good_share) for row in whole.rows]
    series = [
        Series(name, [reading for reading in readings if reading is not None])
        for name, readings in (("kept every promise", good), ("failed", failed))
    ]
    if not any(each.readings for each in series):
        return None
    wanted = whole.plan.promises.share
    has_good = bool(series[0].readings)
    return draw(
        [each for each in series if each.readings],
        x=load_axis(whole),
        y=share_axis([0.0, 1.0]),
        marks=_knee_marks(whole.knee),
        levels=[(wanted, f"wanted: {figure(100 * wanted)} %")] if has_good else [],
        bands=_knee_bands(whole.knee),
    )


def compared_chart(
    wholes: Sequence[tuple[str, Whole]], of: Callable[[Row], Spread | None], axis: str = "ms"
) -> Chart | None:
    """One figure of several tests over the load, a line each; tests are named by letters."""
    series = []
    for letter, whole in wholes:
        found = [(row, of(row)) for row in whole.rows]
        readings = [
            _reading(row.load, spread, f"{letter}, {_load(whole, row)}", axis)
            for row, spread in found
            if spread is not None
        ]
        series.append(Series(letter, readings))
    values = [v for s in series for r in s.readings for v in (r.y, r.high or r.y)]
    if not values:
        return None
    y = time_axis(values) if axis == "ms" else linear_axis(values)
    loads = [reading.x for each in series for reading in each.readings]
    return draw([_within(each, y) for each in series], x=spread_axis(loads), y=y)


def load_axis(whole: Whole) -> Axis:
    """From the lowest to the highest load, the knee's ends included."""
    loads = [row.load for row in whole.rows]
    if whole.knee and whole.knee.found:
        ends = (whole.knee.load, whole.knee.load_low, whole.knee.load_high)
        loads += [end for end in ends if end]
    return spread_axis(loads)


def spread_axis(values: Sequence[float]) -> Axis:
    """An axis over values above 0: logarithmic where they lie far apart."""
    low, high = min(values), max(values)
    if high / low > _WIDE:
        return Axis(low, high, _powers(low, high, figure), logarithmic=True)
    if high == low:
        return Axis(low, high, [(low, figure(low))])
    return Axis(low, high, _steps(low, high))


def time_axis(values: Sequence[float]) -> Axis:
    """Milliseconds, logarithmic where they lie far apart, else from 0."""
    known = [max(value, _LEAST_MS) for value in values]
    low, high = min(known) / 1.2, max(known) * 1.2
    if high / low <= _WIDE:
        return linear_axis(known, milliseconds)
    return Axis(low, high, _powers(low, high, milliseconds), logarithmic=True)


def linear_axis(values: Sequence[float], words: Callable[[float], str] = figure) -> Axis:
    """From 0 to a little above the highest."""
    high = max([*values, 0.0]) * 1.1 or 1.0
    return Axis(0.0, high, _steps(0.0, high, words))


def _rates(whole: Whole, lines: Sequence[tuple[str, str]], unit: str) -> Chart | None:
    series = [
        Series(
            called,
            [
                _reading(row.load, spread, f"{called}, {_load(whole, row)}", unit)
                for row in whole.rows
                if (spread := row.rates[name]) is not None
            ],
        )
        for called, name in lines
    ]
    values = [v for s in series for r in s.readings for v in (r.y, r.high or r.y)]
    if not values:
        return None
    y = linear_axis(values)
    return draw(
        [_within(each, y) for each in series if each.readings],
        x=load_axis(whole),
        y=y,
        marks=_knee_marks(whole.knee),
        bands=_knee_bands(whole.knee),
    )


def _time_reading(whole: Whole, row: Row, called: str, spread: Spread) -> Reading:
    return _reading(row.load, spread, f"{called}, {_load(whole, row)}", "ms")


def _reading(load: float, spread: Spread, name: str, unit: str) -> Reading:
    words = milliseconds if unit == "ms" else figure
    title = f"{name}: {words(spread.value)}{'' if unit == 'ms' else f' {unit}'}"
    if spread.low is not None and spread.high is not None:
        title += f", 95 % interval {words(max(spread.low, 0.0))} to {words(spread.high)}"
    return Reading(load, spread.value, title, low=spread.low, high=spread.high)


def _share(whole: Whole, row: Row, name: str, share: float | None) -> Reading | None:
    if share is None:
        return None
    title = f"{name}, {_load(whole, row)}: {figure(100 * share)} % of {row.requests:,} requests"
    return Reading(row.load, share, title)


def _within(series: Series, axis: Axis) -> Series:
    """With what an axis cannot hold pulled to its ends: intervals may go below zero."""

    def clip(value: float) -> float:
        return min(max(value, axis.low), axis.high)

    readings = [
        Reading(
            each.x,
            clip(each.y),
            each.title,
            each.href,
            None if each.low is None else clip(each.low),
            None if each.high is None else clip(each.high),
        )
        for each in series.readings
    ]
    return Series(series.name, readings)


def _load(whole: Whole, row: Row) -> str:
    return load_words(row.load, whole.arrivals)


def _promise(promises: Promises, name: str) -> float | None:
    return None if name == "itl" else getattr(promises, f"{name}_ms")


def _knee_marks(knee: Knee | None) -> list[tuple[float, str]]:
    if knee is None or not knee.found or not knee.load:
        return []
    return [(knee.load, f"knee {figure(knee.load)}")]


def _knee_bands(knee: Knee | None) -> list[tuple[float, float, str]]:
    if knee is None or not knee.found or not knee.load_low or not knee.load_high:
        return []
    words = f"95 % interval of the knee: {figure(knee.load_low)} to {figure(knee.load_high)}"
    return [(knee.load_low, knee.load_high, words)]


def _powers(low: float, high: float, words: Callable[[float], str]) -> list[tuple[float, str]]:
    """Marks at powers of ten, and at 2 and 5 of them where there is room."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for times in ((1, 2, 5), (1, 3), (1,)):
        marks = [n * 10.0**power for power in powers for n in times]
        inside = [mark for mark in marks if low * 0.999 <= mark <= high * 1.001]
        if len(inside) <= _TICKS_MAX:
            break
    return [(mark, words(mark)) for mark in inside[:: -(-len(inside) // _TICKS_MAX) or 1]]


def _steps(
    low: float, high: float, words: Callable[[float], str] = figure
) -> list[tuple[float, str]]:
    """Marks at round distances, at most six."""
    wide = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(wide))
    step = next(n * power for n in (1, 2, 2.5, 5, 10) if n * power >= wide * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [(n * step, words(n * step)) for n in range(first, last + 1)]
