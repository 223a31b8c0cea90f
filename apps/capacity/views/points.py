"""One point of a load test: its requests one by one, and the gaps in their streams."""

from __future__ import annotations

import uuid

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.capacity.selectors import find_point
from apps.capacity.showing.counters import counter_rows
from apps.capacity.showing.rows import figures_of, whole
from apps.capacity.showing.timelines import READ_MAX, histogram, read_records, timeline
from apps.capacity.showing.words import load_words
from apps.telemetry.access import ops_page

ROWS = (10, 25, 50, 100)
_ROWS_USUAL = 25


@require_GET
@ops_page
def point(request: HttpRequest, loadtest_id: uuid.UUID, point_number: int) -> HttpResponse:
    """The requests of one point over time, some at once, and how long gaps were."""
    found = find_point(loadtest_id, point_number)
    if found is None:
        raise Http404
    each = whole(found.test)
    records = read_records(bytes(found.records))
    rows = _chosen(request.GET.get("rows", ""), ROWS, _ROWS_USUAL)
    first = _place(request.GET.get("first", ""))
    shown = timeline(records, first=first, rows=rows)
    bins, figures = histogram(records), figures_of(found)
    context = {
        "test": found.test,
        "whole": each,
        "point": found,
        "figures": figures,
        "load": load_words(found.load, found.arrivals),
        "counters": counter_rows(figures) if figures else [],
        "timeline": shown,
        "rows": rows,
        "choices": ROWS,
        "before": max(0, shown.first - rows) if shown.first else None,
        "after": shown.first + rows if shown.first + rows < shown.total else None,
        "bins": bins,
        "gap_count": sum(each.count for each in bins),
        "longest": bins[-1].high_ms if bins else None,
        "read_max": READ_MAX,
    }
    return render(request, "capacity/point.html", context)


def _chosen(words: str, choices: tuple[int, ...], usual: int) -> int:
    return next((choice for choice in choices if str(choice) == words), usual)


def _place(words: str) -> int:
    """A place from 0; 0 for what is none."""
    return int(words) if words.isascii() and words.isdigit() and len(words) < 8 else 0
