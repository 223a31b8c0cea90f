"""Who may see pages of all tenants at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase


def is_ops(request: HttpRequest) -> bool:
    """Whether a signed-in person of site operations asks."""
    return request.user.is_authenticated and bool(getattr(request.user, "is_ops", False))


def ops_page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A page for operations; to everybody else there is none.

    `view` takes the request and, by name, what its address names.
    """

    @login_required
    @wraps(view)
    def guarded(request: HttpRequest, **arguments: object) -> HttpResponseBase:
        if not is_ops(request):
            raise Http404
        return view(request, **arguments)

    return guarded
