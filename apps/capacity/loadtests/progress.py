"""How far a test is, as its row tells it while it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils import timezone

from apps.capacity.loadtests.plan import Plan
from apps.capacity.loadtests.steps import Done, Step, expected_points

TELL_S = 1.0  # written, and a stop noticed, this often
_COUNTS = ("sent", "ended", "failed", "in_flight", "elapsed_s", "of_s")

# Told how far it is, about once a second; True: stop it.
OnProgress = Callable[[dict[str, Any]], bool | None]


def ignore_progress(progress: dict[str, Any]) -> None:
    """For who does not look."""


def begin_progress(
    step: Step, *, plan: Plan, done: Sequence[Done], elapsed_s: float
) -> dict[str, Any]:
    """{"purpose", "load", "repeat", "number", "done", "of", "since", "seconds_left"}: `done` points
    of about `of`, and the time that the rest may take, by those so far."""
    expected = expected_points(plan, done)
    each_s = elapsed_s / len(done) if done else plan.bounds.duration_s
    left_s = min(each_s * (expected - len(done)), plan.most_s - elapsed_s)
    return {
        "purpose": step.purpose,
        "load": step.load,
        "repeat": step.repeat,
        "number": step.number,
        "done": len(done),
        "of": expected,
        "since": timezone.now().isoformat(timespec="seconds"),
        "seconds_left": max(0, round(left_s)),
    }


def follow(
    begun: Mapping[str, Any], told: Mapping[str, float | bool], *, point_s: float
) -> dict[str, Any]:
    """The same, `point_s` seconds into the point, with what the generator counts.

    {"sent", "ended", "failed", "in_flight", "elapsed_s", "of_s", "warming_up"}: those that it
    tells and that are numbers.
    """
    counts = {name: told[name] for name in _COUNTS if _is_number(told.get(name))}
    return {
        **begun,
        **counts,
        "warming_up": told.get("warming_up") is True,
        "seconds_left": max(0, round(begun["seconds_left"] - point_s)),
    }


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and math.isfinite(value)  # type: ignore[arg-type]
