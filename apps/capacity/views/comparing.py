"""Two to four load tests side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from apps.capacity.selectors import UNFINISHED, find_tests, whole_test
from apps.capacity.showing.charts import compared_chart
from apps.capacity.showing.comparisons import compare_wholes
from apps.telemetry.access import ops_page

LEAST, MOST = 2, 4
CHARTS = (
    ("First token, p95", "ttft", "p95_ms"),
    ("Each token after it, p95", "tpot", "p95_ms"),
    ("Whole answer, p95", "e2e", "p95_ms"),
)


@require_GET
@ops_page
def compare(request: HttpRequest) -> HttpResponse:
    """What differs between the tests, their knees, and their figures at equal loads."""
    ids = _ids(request.GET.getlist("test"))
    if not LEAST <= len(ids) <= MOST:
        return redirect(f"{reverse('capacity:tests')}?problem=compare")
    found = find_tests(ids)
    if len(found) != len(ids):
        raise Http404
    comparison = compare_wholes([whole_test(test) for test in found])
    charts = [
        (title, chart)
        for title, name, at in CHARTS
        if (chart := compared_chart(comparison.named, lambda r, n=name, a=at: r.time(n, a)))  # type: ignore[misc]
    ]
    tokens = compared_chart(comparison.named, lambda row: row.rates["output_per_s"], "tokens")
    if tokens:
        charts.append(("Output tokens a second", tokens))
    context = {"comparison": comparison, "charts": charts, "unfinished": UNFINISHED}
    return render(request, "capacity/compare.html", context)


def _ids(words: Sequence[str]) -> list[uuid.UUID]:
    """Each once, in the order given; what is none is passed over."""
    found: dict[uuid.UUID, None] = {}
    for each in words[: 2 * MOST]:
        try:
            found[uuid.UUID(each)] = None
        except ValueError:
            continue
    return list(found)
