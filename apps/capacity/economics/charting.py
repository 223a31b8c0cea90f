"""A month's cost against a month's tokens: by the token, with own machines, by instance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.economics.breaking_even import Ownership
from apps.capacity.economics.costing import Costs
from apps.capacity.economics.rates import MTOK, month_micros
from apps.capacity.economics.words import money, tokens
from apps.evals.charts import Axis, Chart, Reading, Series, draw

Words = Callable[[float], str]

MOST_STEPS = 12  # machines: more would be a slope
_ROWS = 6  # volumes of the table, beside those that are marked
_TICKS = 4


@dataclass(frozen=True)
class MonthRow:
    """A volume, and what a month with it costs each way; None: not compared with."""

    tokens: Fraction
    words: str  # why it is in the table
    api: Fraction | None
    own: Fraction
    machines: int
    endpoint: Fraction | None


@dataclass(frozen=True)
class MonthChart:
    chart: Chart
    rows: list[MonthRow]
    beyond: str  # what lies outside of the chart


def month_chart(costs: Costs) -> MonthChart:
    """Steps of owned machines end at `MOST_STEPS`; what lies beyond is said in words."""
    own, end = costs.planned, _end(costs)
    series = [Series("own machines", _steps(own, end, "own"))]
    if costs.api_per_mtok is not None:
        series.append(Series("managed API", _line(costs.api_per_mtok, end)))
    instance = _instance(costs)
    if instance is not None:
        series.append(Series("managed endpoint", _steps(instance, end, "endpoint")))
    highest = max(reading.y for each in series for reading in each.readings)
    chart = draw(
        series,
        x=_axis(float(end), lambda value: tokens(Fraction(value))),
        y=_axis(highest, lambda value: money(round(value)).removesuffix(".00")),
        marks=_marks(costs, end),
    )
    return MonthChart(chart, _rows(costs, end), _beyond(costs, end))


def _instance(costs: Costs) -> Ownership | None:
    """The endpoint, if an instance carried what the measured machine does: nobody measured it."""
    endpoint = costs.choices.endpoint
    if endpoint is None or endpoint.hour_micros is None:
        return None
    return Ownership(month_micros(endpoint.hour_micros), costs.planned.capacity_tokens)


def _end(costs: Costs) -> Fraction:
    """So far that break-even and the present volume are in it, within `MOST_STEPS` machines."""
    capacity, even = costs.planned.capacity_tokens, costs.even
    wanted = [capacity * 3 / 2]
    if even is not None and even.tokens is not None:
        wanted.append(even.tokens * 3 / 2)
    if costs.volume_tokens is not None:
        wanted.append(costs.volume_tokens * 5 / 4)
    return min(max(wanted), capacity * MOST_STEPS)


def _steps(own: Ownership, end: Fraction, name: str) -> list[Reading]:
    """Two readings at each edge: before the next machine, and with it."""
    readings = [_own_reading(own, Fraction(0), 1, name)]
    machines = 1
    while machines * own.capacity_tokens < end:
        edge = machines * own.capacity_tokens
        readings.append(_own_reading(own, edge, machines, name))
        readings.append(_own_reading(own, edge, machines + 1, name))
        machines += 1
    return [*readings, _own_reading(own, end, machines, name)]


def _own_reading(own: Ownership, volume: Fraction, machines: int, name: str) -> Reading:
    marginal = volume * own.marginal_micros_per_mtok / MTOK
    cost = own.shared_micros + machines * own.machine_micros + marginal
    words = f"{name}, {tokens(volume)} tokens a month, {machines}: {money(cost)}"
    return Reading(float(volume), float(cost), words)


def _line(price: Fraction, end: Fraction) -> list[Reading]:
    return [
        Reading(
            float(volume),
            float(price * volume / MTOK),
            f"API, {tokens(volume)} tokens a month: {money(price * volume / MTOK)}",
        )
        for volume in (Fraction(0), end)
    ]


def _axis(high: float, words: Words) -> Axis:
    """From 0, marked at round values."""
    high = high or 1.0
    step = 10.0 ** math.floor(math.log10(high / _TICKS))
    step *= next(n for n in (1, 2, 5, 10) if high / (step * n) <= _TICKS + 1)
    values = [step * n for n in range(int(high / step) + 1)]
    return Axis(0.0, high * 1.05, [(value, words(value)) for value in values])


def _marks(costs: Costs, end: Fraction) -> list[tuple[float, str]]:
    even, volume = costs.even, costs.volume_tokens
    marks = []
    if even is not None and even.tokens is not None and even.tokens <= end:
        marks.append((float(even.tokens), "owning wins"))
    if volume is not None and volume <= end and not _is_near(marks, volume, end):
        marks.append((float(volume), "now"))
    return marks


def _is_near(marks: list[tuple[float, str]], volume: Fraction, end: Fraction) -> bool:
    """Words of two marks would be written over each other."""
    return any(abs(at - float(volume)) < float(end) / 8 for at, _ in marks)


def _rows(costs: Costs, end: Fraction) -> list[MonthRow]:
    even = costs.even
    named = [(costs.planned.capacity_tokens, "all that one machine makes")]
    if even is not None and even.tokens is not None:
        named.append((even.tokens, "owning wins from here"))
    if costs.volume_tokens is not None:
        named.append((costs.volume_tokens, "now"))
    known = {volume for volume, _ in named}
    named += [(v, "") for n in range(1, _ROWS + 1) if (v := end * n / _ROWS) not in known]
    return [_row(costs, volume, words) for volume, words in sorted(named)]


def _row(costs: Costs, volume: Fraction, words: str) -> MonthRow:
    own, price, instance = costs.planned, costs.api_per_mtok, _instance(costs)
    return MonthRow(
        volume,
        words,
        None if price is None else price * volume / MTOK,
        own.month_micros(volume),
        own.machines(volume),
        None if instance is None else instance.month_micros(volume),
    )


def _beyond(costs: Costs, end: Fraction) -> str:
    even, volume = costs.even, costs.volume_tokens
    parts = []
    if even is not None and even.tokens is not None and even.tokens > end:
        parts.append(f"owning wins from {tokens(even.tokens)} tokens a month")
    if volume is not None and volume > end:
        parts.append(f"the present volume is {tokens(volume)}")
    if not parts:
        return ""
    return f"The chart ends at {MOST_STEPS} machines: {' and '.join(parts)}."
