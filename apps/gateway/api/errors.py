"""What the API answers when it does not do what was asked: the one mapper to OpenAI's shape.

{"error": {"message": …, "type": …, "param": …, "code": …}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.db import InterfaceError, OperationalError

from apps.gateway import errors as gateway
from apps.inference import errors as inference
from apps.tenants.errors import KeyInAddress, KeyRefused

_INVALID = "invalid_request_error"
_OURS = "server_error"
_LATER_S = 5
# Upstreams say it in their own words: TGI, vLLM and SGLang, llama.cpp, OpenAI.
_TOO_LONG = (
    "`inputs` tokens",
    "must have less than",
    "maximum context length",
    "context size",
    "context_length_exceeded",
)


@dataclass(eq=False)
class ApiError(Exception):
    """Refused, with words for whoever writes the program."""

    status: int
    code: str
    message: str
    type: str = _INVALID
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        fault = {"message": self.message, "type": self.type, "param": self.param}
        return {"error": {**fault, "code": self.code}}

    def at(self, param: str) -> ApiError:
        """The same of another field."""
        return replace(self, param=param)

    def encoded(self) -> bytes:
        return orjson.dumps(self.body())


INTERNAL = ApiError(
    500, "internal_error", "Something is wrong here. It has been logged.", type=_OURS
)


def invalid(
    message: str, *, param: str | None = None, code: str = "invalid_value", status: int = 400
) -> ApiError:
    return ApiError(status, code, message, param=param)


def model_not_found(name: str) -> ApiError:
    """The same for what is not there and for what is not offered to this key."""
    words = f"The model {name[:100]!r} does not exist or this key may not use it. See /v1/models."
    return ApiError(404, "model_not_found", words, param="model")


def context_exceeded(message: str) -> ApiError:
    return ApiError(400, "context_length_exceeded", message, param="messages")


def as_api_error(exc: Exception) -> ApiError | None:
    """`exc` as the client is told of it; None for a fault of ours."""
    match exc:
        case ApiError():
            return exc
        case KeyInAddress():
            return ApiError(400, exc.code, str(exc))
        case KeyRefused():
            headers = {"www-authenticate": 'Bearer realm="ragsite"'}
            return ApiError(401, "invalid_api_key", str(exc), headers=headers)
        case gateway.GatewayError():
            return _of_gateway(exc)
        case inference.InferenceError():
            return _of_upstream(exc)
        case OperationalError() | InterfaceError():
            words = "The database is away, so nothing is let through. Try again in a moment."
            return _unavailable("store_down", words)
    return None


def _of_gateway(exc: gateway.GatewayError) -> ApiError:
    match exc:
        case gateway.UnknownModel():
            return ApiError(404, "model_not_found", str(exc), param="model")
        case gateway.BadRequest():
            return ApiError(400, exc.code, str(exc), param=exc.param)
        case gateway.Limited():
            return ApiError(429, exc.code, str(exc), type=exc.code, headers=_waiting(exc))
    if exc.retryable:
        return _unavailable(exc.code, str(exc))
    return ApiError(exc.status, exc.code, str(exc), type=_OURS)


def _waiting(exc: gateway.Limited) -> dict[str, str]:
    seconds = max(1, math.ceil(exc.retry_after_s))
    # Read by OpenAI's clients, which would otherwise try a used-up budget again and again.
    retry = {} if exc.retryable else {"x-should-retry": "false"}
    return {**exc.headers, "retry-after": str(seconds), **retry}


def _of_upstream(exc: inference.InferenceError) -> ApiError:
    """The upstream's own wording (`detail`) is told only where the request was at fault."""
    match exc:
        case inference.Rejected():
            words = exc.detail or str(exc)
            if any(sign in words for sign in _TOO_LONG):
                return context_exceeded(words)
            return ApiError(400, exc.code, words)
        case inference.TimedOut():
            return ApiError(504, exc.code, str(exc), type=_OURS)
        case inference.Interrupted() | inference.ProtocolError():
            return ApiError(502, exc.code, str(exc), type=_OURS)
        case inference.Unauthorised():
            words = "The model's server refuses our key. Operations have to correct that."
            return ApiError(502, exc.code, words, type=_OURS)
    return _unavailable(exc.code, str(exc))


def _unavailable(code: str, message: str) -> ApiError:
    headers = {"retry-after": str(_LATER_S)}
    return ApiError(503, code, message, type=_OURS, headers=headers)
