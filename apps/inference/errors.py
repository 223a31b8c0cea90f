"""What can go wrong at a model server.

InferenceError
├── NotConfigured        no server is set for this hop
├── Unavailable          could not connect, or the server is not ready          (retryable)
├── Overloaded           the server refused for load                            (retryable)
├── TimedOut             it fell silent for longer than allowed                 (retryable)
├── Interrupted          the stream ended before the server said it was done    (retryable)
├── Rejected             the request itself is at fault; trying again is no use
├── Unauthorised         the key is missing or wrong
└── ProtocolError        the reply is not what the protocol says
"""

from __future__ import annotations


class InferenceError(Exception):
    """A model server did not do its part. `str()` says what failed, where, and what to do.

    `detail` is the server's own wording. Some servers quote the request in it, so it may hold
    text of a tenant: it is for the person who asked, never for a log. `retry_after_s` is what the
    server asked to wait, where it did.
    """

    code = "inference_error"
    retryable = False
    retry_after_s: float | None = None

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class NotConfigured(InferenceError):
    code = "not_configured"


class Unavailable(InferenceError):
    code = "unavailable"
    retryable = True


class Overloaded(InferenceError):
    code = "overloaded"
    retryable = True


class TimedOut(InferenceError):
    code = "timed_out"
    retryable = True


class Interrupted(InferenceError):
    code = "interrupted"
    retryable = True


class Rejected(InferenceError):
    """`param` names the field at fault where it was found here."""

    code = "rejected"
    param: str | None = None


class Unauthorised(InferenceError):
    code = "unauthorised"


class ProtocolError(InferenceError):
    code = "protocol_error"
