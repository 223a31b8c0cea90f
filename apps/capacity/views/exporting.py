"""Load tests for programs."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from apps.capacity.selectors import find_point, whole_test
from apps.capacity.showing.exports import as_csv, as_json, point_as_json
from apps.capacity.showing.rows import figures_of, measured
from apps.capacity.showing.timelines import read_records
from apps.capacity.views.tests import find
from apps.telemetry.access import ops_page


@require_GET
@ops_page
def export_json(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """The test in the names of vLLM's benchmark; with `?point=` one point and its requests."""
    whole = whole_test(find(loadtest_id))
    words = request.GET.get("point", "")
    if not words:
        return _attached(JsonResponse(as_json(whole)), f"loadtest-{loadtest_id}.json")
    number = int(words) if words.isascii() and words.isdigit() and len(words) < 8 else -1
    point = find_point(loadtest_id, number)
    figures = figures_of(point) if point else None
    if point is None or figures is None:
        raise Http404
    told = point_as_json(whole, measured(point, figures), read_records(bytes(point.records)))
    return _attached(JsonResponse(told), f"loadtest-{loadtest_id}-{number}.json")


@require_GET
@ops_page
def export_csv(request: HttpRequest, loadtest_id: uuid.UUID) -> HttpResponse:
    """A line a point."""
    lines = as_csv(whole_test(find(loadtest_id)))
    response = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    return _attached(response, f"loadtest-{loadtest_id}.csv")


def _attached(response: HttpResponse, name: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
