"""Intervals of means by the bootstrap: questions are drawn anew, with repetition (Efron 1979).

Differences of two runs are drawn by question, both runs' values together (paired): questions vary
far more than runs do (Sakai 2006, "Evaluating evaluation metrics based on the bootstrap").
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
RESAMPLES = 2000
_LEVEL = 95.0
_BLOCK = 100  # resamples at once: 10,000 questions' counts take 8 MB


def mean_intervals(values: Values, *, seed: int = 0) -> list[tuple[float, float]]:
    """The 95 % percentile interval of each column's mean; `values` is questions by columns.

    The same values and seed give the same intervals. One question alone gives no width.
    """
    if not values.size:
        return []
    means = np.concatenate(list(_resampled_means(values, seed)))
    tail = (100 - _LEVEL) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _resampled_means(values: Values, seed: int) -> Iterator[Values]:
    """(resamples, columns): how often each question was drawn, times its values."""
    rng = np.random.default_rng(seed)
    for _ in range(RESAMPLES // _BLOCK):
        drawn = np.stack([_draw(len(values), rng) for _ in range(_BLOCK)])
        yield drawn @ values / len(values)


def _draw(count: int, rng: np.random.Generator) -> Values:
    """How often each of `count` things came up in as many draws."""
    return np.bincount(rng.integers(0, count, count), minlength=count).astype(np.float64)
