"""What the gateway refuses.

GatewayError
├── UnknownModel      no model of that name is offered to this caller            404
├── BadRequest        the request is not one the gateway can serve               400
├── Limited           refused by a limit; nothing was counted                    429
│   ├── RateLimited       too many requests or tokens a minute, or calls at once  (retryable)
│   └── BudgetExceeded    money or tokens of the day or month are used up
├── NoUpstream        no server of the model can take the call now               503 (retryable)
└── StoreDown         Redis or PostgreSQL is away: refused rather than overspent 503 (retryable)

Of no call, and so not among them: ServingChanged, where a route is decided on that has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime


class GatewayError(Exception):
    """A call was not let through. `str()` says why and what to do."""

    code = "gateway_error"
    retryable = False
    status = 500


class UnknownModel(GatewayError):
    code = "unknown_model"
    status = 404


class BadRequest(GatewayError):
    """`param` names the field at fault, as OpenAI's errors do."""

    code = "invalid_request"
    status = 400

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Limited(GatewayError):
    """`limit` names the limit that was met, in words; `resets_at` is when there is room again.

    `headers` are OpenAI's `x-ratelimit-*`, where a rate refused.
    """

    code = "limited"
    status = 429

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        retry_after_s: float,
        resets_at: datetime | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.resets_at = resets_at
        self.headers = dict(headers or {})


class RateLimited(Limited):
    code = "rate_limit_exceeded"
    retryable = True


class BudgetExceeded(Limited):
    code = "insufficient_quota"


class NoUpstream(GatewayError):
    code = "no_upstream"
    retryable = True
    status = 503


class StoreDown(GatewayError):
    code = "store_down"
    retryable = True
    status = 503


class ServingChanged(Exception):
    """What was compared, or seen, is not what would be put in force. `str()` says what to do."""

    code = "serving_changed"
