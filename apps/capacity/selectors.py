"""Load tests for pages: lists, one with its points, and the newest knees."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.db.models import QuerySet
from django.db.models.functions import Length

from apps.capacity.models import LoadPoint, LoadTest
from apps.capacity.showing.rows import Whole, whole

UNFINISHED = (LoadTest.State.WAITING, LoadTest.State.RUNNING)


def tests_listed() -> QuerySet[LoadTest]:
    """All, the newest first, without their workloads: each may be a trace of megabytes."""
    return tests_by_age().defer("workload", "rerun_of__workload")


def tests_by_age() -> QuerySet[LoadTest]:
    """All, the newest first."""
    tests = LoadTest.objects.select_related("created_by", "rerun_of")
    return tests.defer("rerun_of__workload").order_by("-created_at", "id")


def find_test(test_id: uuid.UUID) -> LoadTest | None:
    return tests_by_age().filter(id=test_id).first()


def find_tests(test_ids: Sequence[uuid.UUID]) -> list[LoadTest]:
    """Those of them that there are, in the order of `test_ids`."""
    found = {test.id: test for test in tests_by_age().filter(id__in=test_ids)}
    return [found[test_id] for test_id in test_ids if test_id in found]


def points_of(test: LoadTest) -> QuerySet[LoadPoint]:
    """In the order they were measured, without their records, which may be megabytes."""
    return (
        LoadPoint.objects.filter(test=test)
        .defer("records")
        .annotate(has_records=Length("records"))
        .order_by("number")
    )


def whole_test(test: LoadTest) -> Whole:
    return whole(test, points_of(test))


def find_point(test_id: uuid.UUID, number: int) -> LoadPoint | None:
    """One point with its records and its test."""
    points = LoadPoint.objects.select_related("test")
    return points.filter(test_id=test_id, number=number).first()


def running_test() -> LoadTest | None:
    """The one that is measured, or is the next to be; there is one at a time."""
    unfinished = tests_by_age().filter(state__in=UNFINISHED)
    running = unfinished.filter(state=LoadTest.State.RUNNING).first()
    return running or unfinished.order_by("created_at").first()


def newest_knees(*, most: int = 6) -> list[Whole]:
    """Of each target and model the newest test that found its knee, the newest first."""
    done = tests_listed().filter(state=LoadTest.State.DONE, result__knee__found=True)
    found: dict[tuple[str, str, str], LoadTest] = {}
    for test in done[:200]:
        each = whole(test)
        if each.knee is None or each.target is None or each.knee.load is None:
            continue
        where = each.target.upstream or each.target.url
        found.setdefault((each.target.via, where, each.target.model), test)
        if len(found) == most:
            break
    return [whole(test) for test in find_tests([test.id for test in found.values()])]
