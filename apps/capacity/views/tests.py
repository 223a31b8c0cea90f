"""Load tests: the list, one of them with its charts, and how far it is."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.capacity.models import LoadTest
from apps.capacity.selectors import UNFINISHED, find_test, tests_listed, whole_test
from apps.capacity.showing.charts import rate_chart, share_chart, time_chart, token_chart
from apps.capacity.showing.conditions import conditions_of
from apps.capacity.showing.progress import progress_of
from apps.capacity.showing.rows import RATES, TIMES, whole
from apps.capacity.showing.warnings import warnings_of
from apps.capacity.showing.words import (
    ARRIVALS,
    broken_first,
    failure_of,
    knee_words,
    promise_words,
    target_words,
    workload_words,
)
from apps.telemetry.access import ops_page
from apps.tenants.models import User

PAGE_SIZE = 25


@require_GET
@ops_page
def tests(request: HttpRequest) -> HttpResponse:
    """All load tests, the newest first, to open or to compare."""
    page = Paginator(tests_listed(), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "tests": [_listed(test) for test in page],
        "unfinished": UNFINISHED,
        "problem": request.GET.get("problem") == "compare",
    }
    return render(request, "capacity/tests.html", context)


@require_GET
@ops_page
def test(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """One load test: its knee, its conditions, charts and tables."""
    return render(request, "capacity/test.html", shown(find(loadtest_id)))


@require_GET
@ops_page
def test_state(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """How far it is; asks for the whole page once it has ended.

    `?points=` is how many are shown: where there are more, the figures come too.
    """
    found = find(loadtest_id)
    context = shown(found)
    known = request.GET.get("points", "")
    context["in_passing"] = known != str(len(context["whole"].points))
    response = render(request, "capacity/_test_progress.html", context)
    if found.state not in UNFINISHED:
        response["HX-Refresh"] = "true"
    return response


def find(loadtest_id: uuid.UUID) -> LoadTest:
    """The test of an address, or 404."""
    found = find_test(loadtest_id)
    if found is None:
        raise Http404
    return found


def person(request: HttpRequest) -> User:
    """Who asks, on a page for operations."""
    assert isinstance(request.user, User)  # noqa: S101 - ops_page; for the type checker
    return request.user


def shown(test: LoadTest) -> dict[str, Any]:
    """All that a test's page says."""
    each = whole_test(test)
    plan = each.plan
    return {
        "test": test,
        "whole": each,
        "unfinished": test.state in UNFINISHED,
        "progress": progress_of(each),
        "failure": failure_of(test),
        "knee": knee_words(each),
        "broken": broken_first(each),
        "warnings": warnings_of(each),
        "target": target_words(each.target),
        "workload": workload_words(each.workload),
        "promises": promise_words(plan.promises) if plan else "",
        "arrivals": ARRIVALS.get(plan.arrivals, "") if plan else "",
        "conditions": conditions_of(test.conditions),
        "time_charts": [chart for name in TIMES if (chart := time_chart(each, name))],
        "rate_chart": rate_chart(each),
        "token_chart": token_chart(each),
        "share_chart": share_chart(each),
        "rate_names": RATES,
    }


def _listed(test: LoadTest) -> dict[str, Any]:
    each = whole(test)
    return {
        "test": test,
        "whole": each,
        "target": target_words(each.target),
        "conditions": conditions_of(test.conditions),
        "progress": progress_of(each),
    }
