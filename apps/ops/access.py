"""Who may see pages of all tenants at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse


def ops_page(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """A page for operations; to everybody else there is none."""

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if not getattr(request.user, "is_ops", False):
            raise Http404
        return view(request)

    return guarded
