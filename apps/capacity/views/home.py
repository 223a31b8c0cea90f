"""The overview of capacity: three questions, each with the newest measured answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.capacity.economics.rates import cost_per_mtok
from apps.capacity.errors import PlanInvalid
from apps.capacity.selectors import newest_knees, running_test, whole_test
from apps.capacity.showing.conditions import conditions_of
from apps.capacity.showing.progress import progress_of
from apps.capacity.showing.rows import Whole
from apps.capacity.showing.words import broken_first, knee_words, target_words
from apps.telemetry.access import ops_page

SHARES = (1.0, 0.4)  # of the machine's time that is made use of


@require_GET
@ops_page
def home(request: HttpRequest) -> HttpResponse:
    """Will it fit, how many people, what does it cost."""
    found = newest_knees()
    # Of the newest the points too: which promise breaks first is read from them.
    knees = [_knee(whole_test(each.test)) for each in found[:1]]
    knees += [_knee(each) for each in found[1:]]
    running = running_test()
    context = {
        "knees": knees,
        "newest": knees[0] if knees else None,
        "running": running,
        "progress": progress_of(whole_test(running)) if running else None,
    }
    return render(request, "capacity/home.html", context)


@dataclass(frozen=True)
class Cost:
    """Of a million output tokens at the knee, where `used` of each hour is made use of."""

    used: float
    micros: float


def _knee(each: Whole) -> dict[str, Any]:
    conditions = conditions_of(each.test.conditions)
    return {
        "whole": each,
        "test": each.test,
        "target": target_words(each.target),
        "knee": knee_words(each),
        "broken": broken_first(each),
        "conditions": conditions,
        "has_machine": any(condition.key == "machine" for condition in conditions),
        "hour_micros": _hour_micros(each),
        "costs": _costs(each),
    }


def _costs(each: Whole) -> list[Cost]:
    hour = _hour_micros(each)
    made = each.knee.output_per_s if each.knee else None
    if not hour or not made:
        return []
    try:
        return [Cost(used, float(cost_per_mtok(hour, made, used))) for used in SHARES]
    except PlanInvalid:
        return []


def _hour_micros(each: Whole) -> int | None:
    conditions = each.test.conditions
    hour = conditions.get("hour_micros") if isinstance(conditions, dict) else None
    return hour if isinstance(hour, int) and hour > 0 else None
