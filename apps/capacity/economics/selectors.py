"""Load tests that costs can be computed from."""

from __future__ import annotations

import uuid
from datetime import date

from django.db.models import Q, QuerySet

from apps.capacity.economics.measured import HIGHEST_KEPT, Measured, measure
from apps.capacity.models import LoadPoint, LoadTest

MOST_TESTS = 50
OLD_DAYS = 90  # a price that was read longer ago says so


def tests_with_a_knee() -> list[LoadTest]:
    """Done, with a load that kept the promises and tokens there; the newest first."""
    usable = Q(result__knee__found=True) | Q(result__knee__reason__in=list(HIGHEST_KEPT))
    done = _done().filter(usable, result__knee__low__gt=0, result__knee__output_per_s__gt=0)
    return list(done.exclude(target__kind="null")[:MOST_TESTS])


def read_measured(test_id: uuid.UUID | None) -> Measured | None:
    """The test's figures; of the newest that has them, without an id."""
    if test_id is not None:
        test = _done().filter(id=test_id).first()
        return _measured(test) if test else None
    return next((found for test in tests_with_a_knee() if (found := _measured(test))), None)


def age_days(as_of: date, today: date) -> int:
    return max(0, (today - as_of).days)


def _done() -> QuerySet[LoadTest]:
    done = LoadTest.objects.filter(state=LoadTest.State.DONE)
    return done.order_by("-finished_at", "-created_at")


def _measured(test: LoadTest) -> Measured | None:
    points = (
        LoadPoint.objects.filter(test=test)
        .exclude(purpose=LoadPoint.Purpose.SELF_TEST)
        .defer("records")
        .order_by("number")
    )
    return measure(test, list(points))
