"""Servers that exist as a formula: what a search would measure at them, at once."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from apps.capacity.loadtests.knee import Measured


@dataclass(frozen=True)
class Queue:
    """`slots` requests at a time, each for about `service_s`; a wait up to `promise_s` is good."""

    slots: int = 4
    service_s: float = 1.0
    variation: float = 0.5  # of the service time: deviation / mean
    promise_s: float = 1.0
    requests: int = 200  # of a point

    def point(self, load: float, dice: np.random.Generator) -> int:
        """How many of the requests of one point, Poisson arrivals at an idle server, are good."""
        at = np.cumsum(dice.exponential(1 / load, self.requests))
        shape = 1 / self.variation**2
        service = dice.gamma(shape, self.service_s / shape, self.requests)
        free = [0.0] * self.slots
        good = 0
        for arrives, takes in zip(at, service, strict=True):
            begins = max(heapq.heappop(free), arrives)
            heapq.heappush(free, begins + takes)
            good += begins - arrives <= self.promise_s
        return int(good)

    def measure(self, load: float, dice: np.random.Generator) -> Measured:
        good = self.point(load, dice)
        return Measured(load, self.requests, good, output_per_s=20 * load, input_per_s=200 * load)

    def knee(self, share: float, *, points: int = 400) -> float:
        """The load at which a point's good share is `share` in the mean over many points."""
        low, high = 0.05 * self.slots / self.service_s, 2.0 * self.slots / self.service_s
        for _ in range(12):
            middle = math.sqrt(low * high)
            dice = np.random.default_rng(1)
            good = sum(self.point(middle, dice) for _ in range(points))
            low, high = (middle, high) if good >= share * points * self.requests else (low, middle)
        return math.sqrt(low * high)
