"""What every page's frame needs to know."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def navigation(request: HttpRequest) -> dict[str, Any]:
    """The access the current page was opened with, if it belongs to a tenant."""
    return {"access": getattr(request, "access", None)}
