"""A line through measured times, with the band that another measurement would fall into.

Exact search reads every vector: y = a + b·n. An HNSW search visits neighbours along a path that
grows with the logarithm: y = a + b·ln n. Times are off by a share of themselves, so points weigh
1 / y² (relative least squares). The band is the 95 % prediction interval of one more point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from apps.capacity.loadtests.intervals import student_t

Kind = Literal["exact", "hnsw"]
LEAST_POINTS = 3  # sizes: with fewer, a line has no band
TRUSTED_TIMES = 10.0  # beyond this multiple of the largest measured size, nothing is said
_MOST = 1e12


@dataclass(frozen=True)
class Fit:
    """Milliseconds by number of passages."""

    kind: Kind
    a: float
    b: float
    points: tuple[tuple[int, float], ...]  # (passages, ms) as measured
    spread: float  # standard deviation of a point, as a share of the line
    covariance: tuple[tuple[float, float], tuple[float, float]]
    t: float

    @property
    def smallest(self) -> int:
        return min(n for n, _ in self.points)

    @property
    def largest(self) -> int:
        return max(n for n, _ in self.points)

    @property
    def trusted_to(self) -> float:
        return self.largest * TRUSTED_TIMES

    def at(self, passages: float) -> float:
        """The line; at least 0."""
        return max(0.0, self.a + self.b * _x(self.kind, passages))

    def band(self, passages: float) -> tuple[float, float]:
        """The 95 % prediction interval of a measurement at that size."""
        x = np.array([1.0, _x(self.kind, passages)])
        line = self.at(passages)
        variance = (self.spread * line) ** 2 + float(x @ np.array(self.covariance) @ x)
        half = self.t * math.sqrt(max(0.0, variance))
        return max(0.0, line - half), line + half

    @property
    def formula(self) -> str:
        of = "passages" if self.kind == "exact" else "ln(passages)"
        slope = f"{self.b:.4g}" if self.kind == "hnsw" else f"{self.b * 1000:.4g} / 1,000"
        return f"ms = {self.a:.3g} + {slope} × {of}"

    def crosses(self, ms: float) -> Crossing:
        """The size from which on the line, and each side of its band, is above `ms`."""
        return Crossing(
            at=_first_above(self.at, ms),
            earliest=_first_above(lambda n: self.band(n)[1], ms),
            latest=_first_above(lambda n: self.band(n)[0], ms),
        )


@dataclass(frozen=True)
class Crossing:
    """Numbers of passages; None: not below a million million."""

    at: float | None
    earliest: float | None
    latest: float | None


def fit(kind: Kind, points: Sequence[tuple[int, float]]) -> Fit | None:
    """The line through (passages, ms); None with fewer than three sizes or without time."""
    known = [(n, ms) for n, ms in points if n >= 1 and ms > 0 and math.isfinite(ms)]
    if len({n for n, _ in known}) < LEAST_POINTS:
        return None
    ys = np.array([ms for _, ms in known])
    xs = np.array([[1.0, _x(kind, n)] for n, _ in known])
    weighted = xs / ys[:, None]
    inverse = np.linalg.inv(weighted.T @ weighted)
    a, b = (inverse @ weighted.T @ np.ones(len(known))).tolist()
    if b < 0:  # noise: a search of more passages is not faster
        a, b = float(len(ys) / np.sum(1 / ys)), 0.0
    rest = (ys - xs @ np.array([a, b])) / ys
    freedom = len(known) - 2
    spread = math.sqrt(float(rest @ rest) / freedom)
    covariance = (inverse * spread**2).tolist()
    return Fit(
        kind, a, b, tuple(known), spread,
        ((covariance[0][0], covariance[0][1]), (covariance[1][0], covariance[1][1])),
        student_t(freedom),
    )  # fmt: skip


def _x(kind: Kind, passages: float) -> float:
    return passages if kind == "exact" else math.log(max(1.0, passages))


def _first_above(line: Callable[[float], float], ms: float) -> float | None:
    """By bisection on the logarithm; lines here do not fall."""
    if line(1.0) > ms:
        return 1.0
    if line(_MOST) <= ms:
        return None
    low, high = 0.0, math.log(_MOST)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if line(math.exp(middle)) > ms else (middle, high)
    return math.exp(high)
