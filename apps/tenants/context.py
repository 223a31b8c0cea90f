"""What every page's frame needs to know."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.tenants.models import User
from apps.tenants.selectors import memberships_of


def navigation(request: HttpRequest) -> dict[str, Any]:
    """The access the current page was opened with, and the tenants to switch between.

    The memberships are a lazy queryset: one query where the switcher is shown, else none.
    """
    user = getattr(request, "user", None)
    return {
        "access": getattr(request, "access", None),
        "memberships": memberships_of(user) if isinstance(user, User) else [],
    }
