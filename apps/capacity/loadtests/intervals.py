"""Intervals of small numbers of measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from apps.capacity.load.measures import Interval

# 97.5 % quantiles of Student's t, by degrees of freedom from 1 on; then the normal's.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_Z = 1.959963984540054


def student_t(degrees: int) -> float:
    """What a two-sided 95 % interval reaches, in standard errors; infinite with no degree."""
    if degrees < 1:
        return math.inf
    return _T[degrees - 1] if degrees <= len(_T) else _Z + 2.4 / degrees


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean over repeats with Student's 95 % interval; None of nothing.

    mean ± t(n - 1) · s / √n, s with n - 1. One value alone has no interval: both ends are it.
    """
    if not values:
        return None
    count, mean = len(values), math.fsum(values) / len(values)
    if count == 1:
        return Interval(value=mean, low=mean, high=mean)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = student_t(count - 1) * math.sqrt(variance / count)
    return Interval(value=mean, low=mean - half, high=mean + half)


def wilson(good: int, requests: int) -> Interval:
    """A share with its 95 % interval (Wilson 1927), which holds near 0 and 1 too."""
    if requests <= 0:
        return Interval(value=0.0, low=0.0, high=1.0)
    share, spread = good / requests, _Z * _Z / requests
    middle = share + spread / 2
    half = _Z * math.sqrt(share * (1 - share) / requests + spread / (4 * requests))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return Interval(value=share, low=max(low, 0.0), high=min(high, 1.0))
