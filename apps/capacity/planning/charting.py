"""The ceiling of decode over the batch, as a chart."""

from __future__ import annotations

from collections.abc import Sequence

from apps.capacity.planning.phases import BatchRow
from apps.evals.charts import Axis, Chart, Reading, Series, draw

_MOST_X_TICKS = 7


def batch_chart(rows: Sequence[BatchRow]) -> Chart:
    """Tokens a second of one answer and of all together; the planned batch is marked.

    Both axes are logarithmic: a batch of 256 is 256 times one, and the totals follow.
    """
    one = [_reading(row, row.found.per_sequence.value, "of one answer") for row in rows]
    every = [_reading(row, row.found.total.value, "of all together") for row in rows]
    planned = [(float(row.batch), f"planned: {row.batch}") for row in rows if row.is_planned]
    return draw(
        [Series("one answer, tokens a second", one), Series("all together", every)],
        x=_batches([row.batch for row in rows]),
        y=_speeds([reading.y for reading in (*one, *every)]),
        marks=planned,
    )


def _reading(row: BatchRow, value: float, whose: str) -> Reading:
    room = "" if row.fits else ", more than fits in memory"
    return Reading(row.batch, value, f"batch {row.batch}{room}: {value:,.0f} tokens/s {whose}")


def _batches(batches: Sequence[int]) -> Axis:
    powers = [batch for batch in batches if batch & (batch - 1) == 0]
    step = max(1, -(-len(powers) // _MOST_X_TICKS))
    ticks = [(float(batch), str(batch)) for batch in powers[::step]]
    return Axis(float(batches[0]), float(batches[-1]), ticks, logarithmic=True)


def _speeds(values: Sequence[float]) -> Axis:
    low, high = min(values) / 1.3, max(values) * 1.3
    marks = [10.0**power for power in range(-6, 13)]
    if high / low < 100:
        marks = [number * mark for mark in marks for number in (1, 2, 5)]
    ticks = [(mark, f"{mark:,g}") for mark in marks if low <= mark <= high]
    return Axis(low, high, ticks, logarithmic=True)
