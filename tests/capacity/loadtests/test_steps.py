"""Which point comes next, and within what bounds."""

from __future__ import annotations

from typing import Any

import pytest

from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Bounds, Target
from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.steps import (
    Done,
    End,
    Step,
    expected_points,
    job_of,
    knee_so_far,
    next_step,
)
from tests.capacity.loadtests import generator
from tests.capacity.loadtests.conftest import WORKLOAD, a_plan

TARGET = Target(kind="openai", url="http://127.0.0.1:9/v1")


def measured(plan: Plan, step: Step, **changes: Any) -> Done:
    job = {"arrivals": {"load": step.load}, "bounds": {"requests": plan.bounds.requests}}
    figures = Figures.model_validate({**generator.figures(job), **changes})
    return Done(step.purpose, step.load, figures)


def walk(plan: Plan, *, each_s: float = 1.0) -> tuple[list[Done], End]:
    done: list[Done] = []
    while True:
        step = next_step(plan, done, elapsed_s=each_s * len(done))
        if isinstance(step, End):
            return done, step
        assert step.number == len(done)
        assert expected_points(plan, done) > len(done)
        done.append(measured(plan, step))


def test_a_sweep_has_as_many_points_as_was_said() -> None:
    plan = a_plan(1.0, 2.0, 2.0, 4.0, repeats=3, self_test=True)
    done, end = walk(plan)
    assert len(done) == expected_points(plan, []) == 1 + 3 * 3
    assert end.reason == ""


def test_a_search_has_about_as_many_points_as_was_said() -> None:
    plan = a_plan(0.25, 64.0, mode="knee", repeats=3, self_test=True)
    done, _ = walk(plan)
    assert expected_points(plan, []) / 1.5 <= len(done) <= expected_points(plan, []) * 1.5


def test_time_is_up_before_a_point_that_would_not_fit() -> None:
    plan = a_plan(1.0, repeats=20, most_s=5.5, bounds=Bounds(duration_s=1.0))
    done, end = walk(plan)
    assert (len(done), end.reason) == (5, "out_of_time")


def test_requests_left_are_what_a_point_may_send() -> None:
    plan = a_plan(2.0, arrivals="closed", repeats=5, most_requests=100)
    done, end = walk(plan)
    jobs = [
        job_of(
            Step(n, "sweep", 2.0, n),
            plan=plan,
            target=TARGET,
            workload=WORKLOAD,
            done=done[:n],
        )
        for n in range(3)
    ]
    assert [job.bounds.requests for job in jobs] == [40, 40, 20]
    assert end.reason == "out_of_requests"


def test_a_self_test_is_short_and_sends_nothing_to_the_target() -> None:
    plan = a_plan(50.0, self_test=True, bounds=Bounds(duration_s=60, requests=5000))
    step = next_step(plan, [], elapsed_s=0)
    assert isinstance(step, Step)
    job = job_of(step, plan=plan, target=TARGET, workload=WORKLOAD, done=[])
    assert (job.target.kind, job.target.url) == ("null", "")
    assert (job.bounds.duration_s, job.bounds.requests) == (5.0, 300)


def test_points_that_were_stopped_are_not_judged() -> None:
    plan = a_plan(1.0, 8.0, mode="knee")
    stopped = measured(plan, Step(0, "knee", 1.0, 0), stopped=True)
    assert next_step(plan, [stopped], elapsed_s=0) == Step(1, "knee", 1.0, 1)
    knee = knee_so_far(plan, [stopped], stopped="stopped")
    assert knee is not None
    assert knee.low is None


def test_a_sweep_says_nothing_of_a_knee() -> None:
    assert knee_so_far(a_plan(1.0), []) is None


@pytest.mark.parametrize("seed", [1, 2, 2**31 - 1])
def test_no_two_points_of_tests_with_neighbouring_seeds_share_a_seed(seed: int) -> None:
    def seeds(of: int) -> set[int]:
        plan = a_plan(1.0, seed=of)
        steps = (Step(number, "sweep", 1.0, number) for number in range(200))
        return {
            job_of(step, plan=plan, target=TARGET, workload=WORKLOAD, done=[]).seed
            for step in steps
        }

    assert len(seeds(seed)) == 200
    assert not seeds(seed) & seeds(seed + 1)
