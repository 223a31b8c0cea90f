"""A figure over the repeats of one load: its mean, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from apps.capacity.loadtests.intervals import mean_interval


@dataclass(frozen=True)
class Spread:
    """The mean of `count` repeats; `low` and `high` are its 95 % interval, None of one repeat."""

    value: float
    low: float | None
    high: float | None
    count: int

    def overlaps(self, other: Spread) -> bool | None:
        """Whether the intervals meet; None where one of them has none."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low <= other.high and other.low <= self.high


def spread_of(values: Sequence[float]) -> Spread | None:
    """Over the finite ones of `values`, one a repeat; None of nothing."""
    finite = [value for value in values if math.isfinite(value)]
    interval = mean_interval(finite)
    if interval is None:
        return None
    if len(finite) == 1:
        return Spread(interval.value, None, None, 1)
    return Spread(interval.value, interval.low, interval.high, len(finite))
