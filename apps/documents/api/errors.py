"""What the API answers when it does not do what was asked: the one mapper to HTTP."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import SuspiciousOperation
from django.db import OperationalError
from django.http import JsonResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError

from apps.documents.errors import DocumentError
from apps.tenants.errors import KeyInAddress, KeyRefused
from worker.sandbox import SandboxError

_LATER = {"Retry-After": "10"}
_REALM = 'Bearer realm="ragsite"'
# What a document's own errors are as HTTP; those not named here are 422.
_STATUS = {
    "too_large": 413,
    # Not 429: clients send that again by themselves, and waiting makes no room.
    "quota_exceeded": 413,
    "name_taken": 409,
    "not_retryable": 409,
    "file_missing": 409,
}


class ApiError(Exception):
    """Refused, with words for whoever writes the program."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})


def not_found() -> ApiError:
    """The same for what is not there and for what is somebody else's."""
    return ApiError(404, "not_found", "There is nothing here that this key opens.")


def as_api_error(exc: Exception) -> ApiError | None:
    """`exc` as the client is told of it; None for a fault of ours."""
    match exc:
        case ApiError():
            return exc
        case KeyInAddress():
            return ApiError(400, exc.code, str(exc))
        case KeyRefused():
            return ApiError(401, exc.code, str(exc), {"WWW-Authenticate": _REALM})
        case DocumentError() | SandboxError() if exc.retryable:
            return ApiError(503, exc.code, str(exc), _LATER)
        case DocumentError() | SandboxError():
            return ApiError(_STATUS.get(exc.code, 422), exc.code, str(exc))
        case MultiPartParserError() | UnreadablePostError() | SuspiciousOperation():
            return ApiError(
                400, "bad_request", "The request could not be read: its body or address is broken."
            )
        case OperationalError():
            return ApiError(503, "unavailable", "The database is away. Try again soon.", _LATER)
    return None


def refusal(error: ApiError) -> JsonResponse:
    """`{"error": {"code", "message"}}` with its status."""
    body = {"error": {"code": error.code, "message": str(error)}}
    return JsonResponse(body, status=error.status, headers=error.headers)
