"""How sure a figure is: 95 % intervals of a load's good share and of means over repeats. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.capacity.load.figures import is_good
from apps.capacity.load.measures import Interval, Record
from apps.capacity.load.types import Promises

RESAMPLES = 2000
_TAILS = (2.5, 97.5)
_Z = 1.959964  # of the normal distribution, 97.5 %
# Student's t at 97.5 % by degrees of freedom, 1 to 30.
_T = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)


def bootstrap_good_share(
    repeats: Sequence[Sequence[Record]], promises: Promises, *, seed: int = 0
) -> Interval:
    """The share of good requests over all of a load's repeats, with its interval.

    Requests near each other wait in the same queue, so they are drawn anew in blocks of n^(1/3)
    that follow one another (moving blocks, Künsch 1989), each repeat from its own. Where all are
    good, or none, drawing shows no width: Wilson's interval then. Raises ValueError of no requests.
    """
    kept = [_kept(records, promises) for records in repeats if records]
    count = sum(each.size for each in kept)
    if not count:
        raise ValueError("no requests")
    good = int(sum(each.sum() for each in kept))
    if good in (0, count):
        return wilson(good, count)
    rng = np.random.default_rng(seed)
    shares = sum((_drawn(each, rng) for each in kept), np.zeros(RESAMPLES)) / count
    low, high = np.percentile(shares, _TAILS).tolist()
    return Interval(value=good / count, low=low, high=high)


def wilson(good: int, count: int) -> Interval:
    """A share of independent yes and no, with its score interval (Wilson 1927)."""
    share, z2 = good / count, _Z * _Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    width = _Z * spread / (1 + z2 / count)
    return Interval(value=share, low=max(0.0, middle - width), high=min(1.0, middle + width))


def mean_interval(values: Sequence[float]) -> Interval | None:
    """The mean of repeats with Student's interval; None of fewer than two: they show no spread."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in values) / (len(values) - 1))
    width = _T[min(len(values) - 1, len(_T)) - 1] * spread / math.sqrt(len(values))
    return Interval(value=mean, low=mean - width, high=mean + width)


def _kept(records: Sequence[Record], promises: Promises) -> NDArray[np.int64]:
    in_order = sorted(records, key=lambda each: each.intended_s)
    return np.array([is_good(each, promises) for each in in_order], dtype=np.int64)


def _drawn(kept: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """How many were good in each resample of one repeat's requests, in whole blocks, scaled."""
    length = max(1, round(kept.size ** (1 / 3)))
    sums = np.convolve(kept, np.ones(length, dtype=np.int64), "valid")
    blocks = math.ceil(kept.size / length)
    drawn = rng.integers(0, sums.size, (RESAMPLES, blocks))
    scaled: NDArray[np.float64] = sums[drawn].sum(axis=1) * (kept.size / (blocks * length))
    return scaled
