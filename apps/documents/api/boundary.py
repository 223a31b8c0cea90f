"""What every request to the API passes: method, key, right; and what every answer looks like."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from apps.documents.api.errors import ApiError, as_api_error, not_found, refusal
from apps.tenants.access import KeyAccess, Right
from apps.tenants.bearer import key_access

logger = logging.getLogger(__name__)


class ApiRequest(HttpRequest):
    """A request whose key has been looked at."""

    access: KeyAccess


@dataclass(frozen=True)
class Answer:
    """A status and a JSON object; None: no body."""

    status: int = 200
    body: dict[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_response(self) -> HttpResponse:
        if self.body is None:
            return HttpResponse(status=self.status, headers=self.headers)
        return JsonResponse(self.body, status=self.status, headers=dict(self.headers))


@dataclass(frozen=True)
class Operation:
    """What a method of an address does, and the right that it demands."""

    right: Right
    carry_out: Callable[..., Answer]


View = Callable[..., HttpResponse]


def reads(function: Callable[..., Answer]) -> Operation:
    return Operation(Right.READ, function)


def writes(function: Callable[..., Answer]) -> Operation:
    return Operation(Right.MANAGE_CORPUS, function)


def endpoint(**operations: Operation) -> View:
    """A view for the methods named in lower case; HEAD is GET without its body."""
    known = {name.upper(): operation for name, operation in operations.items()}
    if "GET" in known:
        known["HEAD"] = known["GET"]
    allowed = ", ".join([*known, "OPTIONS"])

    def view(request: HttpRequest, **arguments: Any) -> HttpResponse:
        try:
            response = _carry_out(known, allowed, request, arguments)
        except Exception as exc:  # everything is answered in JSON
            response = _failed(request, exc)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    view.operations = known  # type: ignore[attr-defined]
    return csrf_exempt(view)  # no cookie counts here, so none can be abused


def _carry_out(
    known: Mapping[str, Operation], allowed: str, request: HttpRequest, arguments: dict[str, Any]
) -> HttpResponse:
    method = request.method or ""
    if method == "OPTIONS":
        return HttpResponse(status=204, headers={"Allow": allowed})
    operation = known.get(method)
    if operation is None:
        words = f"This address takes {allowed}."
        raise ApiError(405, "method_not_allowed", words, {"Allow": allowed})
    access = key_access(request)
    if not access.may(operation.right):
        words = "This key may only read. Make one that may upload and delete, and use that."
        raise ApiError(403, "forbidden", words)
    api_request = cast(ApiRequest, request)
    api_request.access = access
    return operation.carry_out(api_request, **arguments).as_response()


def _failed(request: HttpRequest, exc: Exception) -> HttpResponse:
    error = as_api_error(exc)
    if error is None:
        logger.exception("API: %s %s failed", request.method, request.path)
        error = ApiError(500, "internal_error", "Something is wrong here. It has been logged.")
    return refusal(error)


@csrf_exempt
def nothing_here(request: HttpRequest, **_: Any) -> HttpResponse:
    """Every other address below `/api/v1/`."""
    return refusal(not_found())
