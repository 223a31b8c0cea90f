"""The load where the share of good requests crosses the promised one, with its 95 % interval.

A logistic curve over the logarithm of the load, logit(share) = a + b · ln(load), is fitted to the
points by maximum likelihood; the crossing is where it is logit(promised), the interval all loads at
which the curve's own uncertainty leaves both sides open (Fieller 1954, by Student's t).

Requests are not independent: one that waits for long has neighbours that wait for long. On
simulated queues, drawing single requests anew (the bootstrap) gave intervals that held the true
knee in 4 of 10 searches, not in 95 of 100, and stretches of requests in 6 to 8 of 10. So the
variance is scaled by how much more the points vary about the curve than independent requests would
(Pearson's χ² by its degrees of freedom, McCullagh & Nelder 1989, 4.5), drawn towards what queues
are like: that held it in 91 to 94 of 100 searches at three kinds of queue, other searches than
those by which it was chosen. tests/capacity/loadtests/test_knee.py measures that again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.capacity.load.measures import Interval
from apps.capacity.loadtests.intervals import student_t

Values = NDArray[np.float64]
# Points of simulated queues at their knee vary about so much more than independent requests.
PRIOR_SCALE, PRIOR_DEGREES = 6.0, 6
_STEPS = 60  # of Newton; some ten are needed
_STEP_MAX = 3.0
_GRID = (
    4001  # loads that are looked at, evenly on a logarithmic scale: 0.1 % apart over a factor 50
)


@dataclass(frozen=True)
class Counted:
    """One point: its load, its good requests, and all of them."""

    load: float
    good: int
    requests: int


@dataclass(frozen=True)
class _Curve:
    """logit(share) = at + slope · (ln(load) - middle), with the covariance of the two."""

    at: float
    slope: float
    middle: float
    covariance: Values
    degrees: int

    def logit(self, logs: Values) -> Values:
        return self.at + self.slope * (logs - self.middle)

    def error(self, logs: Values) -> Values:
        """The standard error of `logit`."""
        from_middle = logs - self.middle
        variance = (
            self.covariance[0, 0]
            + 2 * from_middle * self.covariance[0, 1]
            + from_middle**2 * self.covariance[1, 1]
        )
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def find_crossing(points: Sequence[Counted], share: float) -> Interval | None:
    """Where the share falls below `share`; None where the points show no fall.

    The interval never reaches beyond the loads that were measured. Points at two loads at least.
    """
    counted = [point for point in points if point.requests > 0]
    if len({point.load for point in counted}) < 2:
        return None
    curve = _fit(counted)
    if curve.slope >= 0:
        return None
    logs = np.log([point.load for point in counted])
    ends = float(logs.min()), float(logs.max())
    wanted = _logit(min(share, 1 - 1e-3))  # no curve reaches all of them
    crossing = curve.middle + (wanted - curve.at) / curve.slope
    value = min(max(crossing, ends[0]), ends[1])
    low, high = _open_loads(curve, wanted, value, ends)
    return Interval(value=math.exp(value), low=math.exp(low), high=math.exp(high))


def _open_loads(
    curve: _Curve, wanted: float, value: float, ends: tuple[float, float]
) -> tuple[float, float]:
    """The first and last load, as logarithms, that could be the crossing."""
    grid = np.linspace(*ends, _GRID)
    reach = student_t(curve.degrees) * curve.error(grid)
    possible = grid[np.abs(curve.logit(grid) - wanted) <= reach]
    if not possible.size:
        return value, value
    return min(value, float(possible[0])), max(value, float(possible[-1]))


def _fit(points: Sequence[Counted]) -> _Curve:
    logs = np.log([point.load for point in points])
    # Half a request more on either side (Jeffreys): the curve stays finite where all points are
    # wholly good or wholly bad.
    requests = np.array([point.requests + 1.0 for point in points])
    good = np.array([point.good + 0.5 for point in points])
    middle = float(logs.mean())
    matrix = np.column_stack([np.ones_like(logs), logs - middle])
    beta = np.array([float(np.log(good / (requests - good)).mean()), -5.0])
    for _ in range(_STEPS):
        shares = _shares(matrix @ beta)
        step = np.linalg.solve(
            _information(matrix, requests, shares), matrix.T @ (good - requests * shares)
        )
        beta = beta + np.clip(step, -_STEP_MAX, _STEP_MAX)
        if float(np.abs(step).max()) < 1e-9:
            break
    shares = _shares(matrix @ beta)
    degrees = len(points) - 2
    scale = _overdispersion(good, requests, shares, degrees)
    inverse = np.linalg.inv(_information(matrix, requests, shares))
    covariance = np.asarray(inverse * scale, dtype=np.float64)
    return _Curve(float(beta[0]), float(beta[1]), middle, covariance, max(degrees, 1))


def _shares(logits: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))))


def _information(matrix: Values, requests: Values, shares: Values) -> Values:
    weights = requests * shares * (1 - shares)
    return np.asarray(matrix.T @ (matrix * weights[:, None]) + np.eye(2) * 1e-6)


def _overdispersion(good: Values, requests: Values, shares: Values, degrees: int) -> float:
    """How much more the points vary than independent requests would; at least 1.

    A dozen points say little of that: what queues are like counts as if PRIOR_DEGREES had said it.
    """
    expected = requests * shares * (1 - shares) + 1e-9
    pearson = float(((good - requests * shares) ** 2 / expected).sum())
    known = PRIOR_DEGREES * PRIOR_SCALE
    return max(1.0, (pearson + known) / (max(degrees, 1) + PRIOR_DEGREES))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
