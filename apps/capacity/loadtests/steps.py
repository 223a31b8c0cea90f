"""Which point of a test comes next, by those that are measured: no state but the points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Arrivals, Bounds, Job, Target, Workload
from apps.capacity.loadtests.knee import Measured, knee_of, next_load
from apps.capacity.loadtests.plan import Knee, Plan

Purpose = Literal["self_test", "sweep", "knee"]
SELF_TEST_S = 5.0
SELF_TEST_REQUESTS = 300
_SEEDS_APART = 1_000_003  # points of neighbouring seeds share none


@dataclass(frozen=True)
class Done:
    """A point that is measured."""

    purpose: Purpose
    load: float
    figures: Figures


@dataclass(frozen=True)
class Step:
    """The next point."""

    number: int
    purpose: Purpose
    load: float
    repeat: int


@dataclass(frozen=True)
class End:
    """No point comes next. `reason` "": all of the plan is done."""

    reason: Literal["", "out_of_time", "out_of_requests"] = ""


def next_step(plan: Plan, done: Sequence[Done], *, elapsed_s: float) -> Step | End:
    """What to measure after `done`, `elapsed_s` after the test began.

    The self-test first. A sweep goes through all loads before it repeats any, so that what drifts
    with time is not taken for an effect of the load.
    """
    found = _following(plan, done)
    if found is None:
        return End()
    purpose, load = found
    if plan.most_s - elapsed_s < plan.bounds.duration_s:
        return End("out_of_time")
    if purpose != "self_test" and _requests_left(plan, done) < _least_requests(plan, load):
        return End("out_of_requests")
    same = [point for point in done if point.purpose != "self_test" and point.load == load]
    return Step(len(done), purpose, load, 0 if purpose == "self_test" else len(same))


def job_of(
    step: Step, *, plan: Plan, target: Target, workload: Workload, done: Sequence[Done]
) -> Job:
    """The point as the generator is asked for it. Each has a seed of its own."""
    bounds, seed = plan.bounds, plan.seed * _SEEDS_APART + step.number
    if step.purpose == "self_test":
        target = Target(kind="null")
        bounds = _bounded(bounds, SELF_TEST_REQUESTS, min(SELF_TEST_S, bounds.duration_s))
    else:
        left = min(bounds.requests, _requests_left(plan, done))
        bounds = _bounded(bounds, left, bounds.duration_s)
    return Job(
        target=target,
        workload=workload,
        arrivals=Arrivals(kind=plan.arrivals, load=step.load),
        bounds=bounds,
        promises=plan.promises,
        seed=seed,
    )


def knee_so_far(plan: Plan, done: Sequence[Done], *, stopped: str = "") -> Knee | None:
    """What is known of the knee; None of a plan that looks for none."""
    return knee_of(_measured(done), plan, stopped=stopped) if "knee" in plan.mode else None


def expected_points(plan: Plan, done: Sequence[Done]) -> int:
    """About how many points the whole test has: exactly so of a sweep."""
    count = int(plan.self_test)
    if "sweep" in plan.mode:
        count += len(set(plan.loads)) * plan.repeats
    if "knee" in plan.mode:
        count += _expected_search(plan)
    return max(count, len(done) + int(_following(plan, done) is not None))


def most_seconds(plan: Plan) -> float:
    """The longest that a test may take, drained and warmed up: for who is about to start it."""
    drained_s = plan.bounds.drain_s + plan.bounds.request_timeout_s
    return plan.most_s + drained_s


def _following(plan: Plan, done: Sequence[Done]) -> tuple[Purpose, float] | None:
    if plan.self_test and not any(point.purpose == "self_test" for point in done):
        return "self_test", max(plan.loads)
    if "sweep" in plan.mode:
        swept = sum(point.purpose == "sweep" for point in done)
        loads = sorted(set(plan.loads))
        if swept < len(loads) * plan.repeats:
            return "sweep", loads[swept % len(loads)]
    if "knee" in plan.mode and (load := next_load(_measured(done), plan)) is not None:
        return "knee", load
    return None


def _measured(done: Sequence[Done]) -> list[Measured]:
    """What the search knows; points that were stopped are too short to judge by."""
    return [
        Measured.of(point.load, point.figures)
        for point in done
        if point.purpose != "self_test" and not point.figures.stopped
    ]


def _requests_left(plan: Plan, done: Sequence[Done]) -> int:
    sent = sum(point.figures.requests for point in done if point.purpose != "self_test")
    return plan.most_requests - sent


def _least_requests(plan: Plan, load: float) -> int:
    """What a point takes at that load: one of half as many could not be compared with the rest."""
    if plan.arrivals in ("poisson", "constant"):
        expected = math.ceil(load * plan.bounds.duration_s)
        return max(1, min(plan.bounds.requests, expected))
    return 1


def _expected_search(plan: Plan) -> int:
    span = max(plan.loads) / min(plan.loads)
    doublings = math.ceil(math.log2(span)) if span > 1 and plan.mode == "knee" else 0
    halvings = max(0, math.ceil(math.log2(math.log(2) / math.log(plan.tightness))))
    return (doublings + 1) // 2 + 1 + halvings + 2 * plan.repeats


def _bounded(bounds: Bounds, requests: int, duration_s: float) -> Bounds:
    changes: dict[str, Any] = {
        "requests": min(bounds.requests, requests),
        "duration_s": duration_s,
    }
    return bounds.model_copy(update=changes)
