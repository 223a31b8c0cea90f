"""What the gateway refuses.

GatewayError
└── UnknownModel   no model of that name is offered
"""

from __future__ import annotations


class GatewayError(Exception):
    """A call was not let through. `str()` says why and what to do."""

    code = "gateway_error"
    retryable = False


class UnknownModel(GatewayError):
    code = "unknown_model"
