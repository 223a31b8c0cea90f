"""Health and metrics, for the machines that watch the site."""

from __future__ import annotations

import hmac
from datetime import timedelta

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from apps.telemetry.access import is_ops, ops_page
from apps.telemetry.health import check_parts
from apps.telemetry.selectors import hop_percentiles

HOURS = (1, 24, 168)
DEFAULT_HOURS = 24
WALKS_SHOWN = (
    ("answer", "Answers", "No question was asked in this time."),
    ("ingestion", "Documents", "No document was ingested in this time."),
)


@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Liveness: asks nothing else, so that a slow database restarts nobody."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Readiness: 200 when the parts answer, else 503; each part's state in either case."""
    parts = check_parts()
    ready = all(part.ok for part in parts)
    body = {
        "ready": ready,
        "parts": {
            part.name: {"ok": part.ok, "ms": part.ms}
            | ({"error": part.error} if part.error else {})
            for part in parts
        },
    }
    return JsonResponse(body, status=200 if ready else 503)


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text, for whoever has METRICS_TOKEN and for signed-in operations."""
    if not (_has_token(request) or is_ops(request)):
        raise Http404
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)


@ops_page
def hops(request: HttpRequest) -> HttpResponse:
    """Hop times of all tenants, for operations; a page nobody else knows of."""
    asked = request.GET.get("hours", "")
    hours = int(asked) if asked in map(str, HOURS) else DEFAULT_HOURS
    since = timezone.now() - timedelta(hours=hours)
    walks = [
        {"title": title, "nothing": nothing, "figures": hop_percentiles(kind, since)}
        for kind, title, nothing in WALKS_SHOWN
    ]
    return render(
        request, "telemetry/hops.html", {"hours": hours, "choices": HOURS, "walks": walks}
    )


def _has_token(request: HttpRequest) -> bool:
    expected = f"Bearer {settings.METRICS_TOKEN}".encode()
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    return bool(settings.METRICS_TOKEN) and hmac.compare_digest(given, expected)
