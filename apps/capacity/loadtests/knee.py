"""The search for the knee: the highest load that keeps the promises.

The next load to measure follows from all that were measured, so that a search that was cut off goes
on where it was. Doubling from the lowest load until one breaks the promises or the highest keeps
them; then the bracket is halved (on a logarithmic scale) until it is tight; then both of its ends
are repeated, which may move it; and one load above it is measured, where none was.

A load is judged by its repeats together. While the Wilson interval of its share of good requests
straddles the promised share, it is repeated before anything is concluded, as often as the plan
repeats.

A point is as long as the plan says, and starts with an idle server: near the knee a queue grows
for longer than that, so a knee holds for load that lasts as long as a point does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from apps.capacity.load.measures import Figures
from apps.capacity.loadtests.crossing import Counted, find_crossing
from apps.capacity.loadtests.intervals import wilson
from apps.capacity.loadtests.plan import Knee, Plan

SEARCH_POINTS_MAX = 80
BEYOND = 1.4
SPAN = 2.0  # loads this far from the bracket's ends are still of the curve through it


@dataclass(frozen=True)
class Measured:
    """What the search needs to know of one point."""

    load: float
    requests: int
    good: int
    is_trustworthy: bool = True
    output_per_s: float = 0.0
    input_per_s: float = 0.0
    requests_per_s: float = 0.0

    @classmethod
    def of(cls, load: float, figures: Figures) -> Measured:
        """A point's figures; without a promise, no request is good."""
        return cls(
            load=load,
            requests=figures.requests,
            good=figures.good or 0,
            is_trustworthy=figures.client.is_trustworthy,
            output_per_s=figures.output_per_s,
            input_per_s=figures.input_per_s,
            requests_per_s=figures.requests_per_s,
        )


@dataclass(frozen=True)
class _Judged:
    """All points at one load."""

    load: float
    points: tuple[Measured, ...]  # the trustworthy ones, or all where none is
    measured: int  # how often, the others too
    share: float  # that was promised

    @property
    def good(self) -> int:
        return sum(point.good for point in self.points)

    @property
    def requests(self) -> int:
        return sum(point.requests for point in self.points)

    @property
    def keeps(self) -> bool:
        return self.requests > 0 and self.good >= self.share * self.requests

    @property
    def is_clear(self) -> bool:
        interval = wilson(self.good, self.requests)
        return not interval.low < self.share <= interval.high

    @property
    def is_trustworthy(self) -> bool:
        return any(point.is_trustworthy for point in self.points)

    @property
    def is_doubtful(self) -> bool:
        """Broken, as far as a late generator could see. Lateness never makes a broken one kept."""
        return not self.is_trustworthy and not self.keeps


def search(
    measure: Callable[[float], Measured], plan: Plan, known: Iterable[Measured] = ()
) -> Knee:
    """The whole search; `known` are points that were measured before, such as a sweep's."""
    points = list(known)
    while (load := next_load(points, plan)) is not None:
        points.append(measure(load))
    return knee_of(points, plan)


def next_load(points: Sequence[Measured], plan: Plan) -> float | None:
    """What to measure next; None where the search has ended."""
    loads = _judge(points, plan)
    if len(points) >= SEARCH_POINTS_MAX + len(plan.loads) * plan.repeats:
        return None
    if not loads:
        return _rounded(min(plan.loads), plan)
    bracket = _bracket(loads)
    for judged in bracket:
        if judged.is_doubtful:
            return judged.load if judged.measured < 2 else None
        if not judged.is_clear and judged.measured < plan.repeats:
            return judged.load
    wider = _wider(bracket, loads, plan)
    if wider is not None or len(bracket) < 2:
        return wider
    return _within(bracket, plan) or _beyond(bracket[-1], loads, plan)


def knee_of(points: Sequence[Measured], plan: Plan, *, stopped: str = "") -> Knee:
    """The knee, by what was measured. `stopped`: why the search could not go on, where it did not.

    Reasons are those at `Knee.reason`.
    """
    loads = _judge(points, plan)
    bracket = _bracket(loads)
    low = next((judged for judged in bracket if judged.keeps), None)
    high = next((judged for judged in bracket if not judged.keeps), None)
    reason = _reason(bracket, stopped)
    knee = Knee(
        found=not reason,
        reason=reason,
        low=low.load if low else None,
        high=high.load if high else None,
        arrivals=plan.arrivals,
    )
    if low is not None:
        knee = knee.model_copy(update=_rates(low))
    if low is not None and high is not None:
        knee = knee.model_copy(update=_crossing(loads, low, high, plan))
    return knee


def _judge(points: Iterable[Measured], plan: Plan) -> dict[float, _Judged]:
    """By load, in order."""
    by_load: dict[float, list[Measured]] = {}
    for point in points:
        by_load.setdefault(point.load, []).append(point)
    return {
        load: _Judged(
            load,
            tuple(p for p in same if p.is_trustworthy) or tuple(same),
            len(same),
            plan.promises.share,
        )
        for load, same in sorted(by_load.items())
    }


def _bracket(loads: Mapping[float, _Judged]) -> list[_Judged]:
    """The lowest load that breaks the promises, after the one below; or the one that there is."""
    broken = next((judged for judged in loads.values() if not judged.keeps), None)
    below = [judged for judged in loads.values() if broken is None or judged.load < broken.load]
    return below[-1:] + ([broken] if broken else [])


def _wider(bracket: Sequence[_Judged], loads: Mapping[float, _Judged], plan: Plan) -> float | None:
    """The next load beyond those measured, while one end is missing."""
    if len(bracket) == 2:
        return None
    lowest, highest = _rounded(min(plan.loads), plan), _rounded(max(plan.loads), plan)
    [end] = bracket
    if not end.keeps:  # already the lowest that was measured
        return lowest if lowest < end.load else None
    return min(_rounded(end.load * 2, plan), highest) if end.load < highest else None


def _within(bracket: Sequence[_Judged], plan: Plan) -> float | None:
    low, high = bracket
    middle = _rounded(math.sqrt(low.load * high.load), plan)
    if high.load / low.load > plan.tightness and low.load < middle < high.load:
        return middle
    fewest = min(bracket, key=lambda judged: judged.measured)
    return fewest.load if fewest.measured < plan.repeats else None


def _beyond(high: _Judged, loads: Mapping[float, _Judged], plan: Plan) -> float | None:
    """A load above the bracket, where there is none: without one, an upper end that was unlucky
    would bound the interval. Measured at simulated queues, it then missed the knee in 2 of 10."""
    if max(loads) > high.load or high.load >= _rounded(max(plan.loads), plan):
        return None
    return min(_rounded(high.load * BEYOND, plan), _rounded(max(plan.loads), plan))


def _rounded(load: float, plan: Plan) -> float:
    """As a closed loop needs it; else to 4 digits, so that a load can be typed again."""
    return float(max(1, round(load))) if plan.arrivals == "closed" else float(f"{load:.4g}")


def _reason(bracket: Sequence[_Judged], stopped: str) -> str:
    if stopped:
        return stopped
    if any(judged.is_doubtful for judged in bracket):
        return "untrustworthy"
    if len(bracket) == 2:
        return ""
    return "always_kept" if bracket and bracket[0].keeps else "never_kept"


def _rates(low: _Judged) -> dict[str, object]:
    """Means over the repeats."""
    count = len(low.points)
    return {
        "output_per_s": sum(point.output_per_s for point in low.points) / count,
        "input_per_s": sum(point.input_per_s for point in low.points) / count,
        "requests_per_s": sum(point.requests_per_s for point in low.points) / count,
        "repeats": count,
    }


def _crossing(
    loads: Mapping[float, _Judged], low: _Judged, high: _Judged, plan: Plan
) -> dict[str, object]:
    near = [
        Counted(point.load, point.good, point.requests)
        for judged in loads.values()
        if low.load / SPAN <= judged.load <= high.load * SPAN
        for point in judged.points
    ]
    found = find_crossing(near, plan.promises.share)
    if found is None:  # the points contradict each other: anything within the bracket
        return {"load": low.load, "load_low": low.load, "load_high": high.load}
    # By its repeats' mean, the one end keeps the promises and the other does not.
    load = min(max(found.value, low.load), high.load)
    return {
        "load": load,
        "load_low": min(found.low, load),
        "load_high": max(found.high, load),
    }
