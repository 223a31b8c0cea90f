"""What people see when a part that the site cannot do without is down."""

from __future__ import annotations

import logging
from collections.abc import Callable

import redis
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from apps.documents.errors import StorageUnavailable

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 10
_PARTS: tuple[tuple[type[Exception], str], ...] = (
    (redis.RedisError, "redis"),
    (OperationalError, "database"),
    (StorageUnavailable, "file storage"),
)


class PartDownMiddleware:
    """503 with a page that says so, instead of a fault page, when Redis or another part is away."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse | None:
        """None for any other fault: Django's own handling goes on."""
        for kind, part in _PARTS:
            if isinstance(exc, kind):
                logger.error("%s is away: %s", part, type(exc).__name__)
                return part_down()
        return None


def part_down() -> HttpResponse:
    """The page. It needs neither of the parts that may be away."""
    page = render_to_string("503.html")
    return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_S)})
