"""Pages of the gateway for operations."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.gateway.calling import catalogue
from apps.gateway.calling.probing import probe
from apps.gateway.calling.slots import let_try
from apps.gateway.calling.states import read_states
from apps.gateway.errors import GatewayError
from apps.telemetry.access import ops_page


@require_GET
@ops_page
def upstreams(request: HttpRequest) -> HttpResponse:
    """Every model server: whether it is well, what it does, and what it serves."""
    return _page(request)


@require_POST
@ops_page
def try_upstream(request: HttpRequest) -> HttpResponse:
    """Look at one now, and let the next call try it."""
    upstream = catalogue.current().upstream(request.POST.get("name", ""))
    if upstream is None:
        raise Http404
    try:
        if upstream.kind != "local":
            async_to_sync(probe)(upstream)
        async_to_sync(let_try)(upstream.name)
    except GatewayError as exc:
        return _page(request, fault=str(exc))
    return _page(request) if _in_part(request) else redirect("gateway:upstreams")


def _page(request: HttpRequest, *, fault: str = "") -> HttpResponse:
    context: dict[str, object] = {"fault": fault, "may_change": _may_change(request)}
    try:
        offered = catalogue.current()
        context |= {"problems": offered.problems, "states": async_to_sync(read_states)(offered)}
    except GatewayError as exc:
        context["fault"] = str(exc)
    template = "gateway/_upstreams.html" if _in_part(request) else "gateway/upstreams.html"
    return render(request, template, context)


def _may_change(request: HttpRequest) -> bool:
    """Whether the site's administration is open to them, too."""
    return request.user.is_authenticated and request.user.is_staff


def _in_part(request: HttpRequest) -> bool:
    return bool(request.htmx)  # type: ignore[attr-defined]
