"""What a model server's refusal means: statuses and error bodies into the error tree.

The shapes are those of TGI, TEI, vLLM, SGLang and llama.cpp. A status alone does not tell: TGI
answers 200 and reports overload inside the stream, with the constant 422 on its chat route.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from apps.inference import errors

DETAIL_CHARS = 500

# Statuses that mean the same at every server. Any other 5xx: Unavailable; any other 4xx: Rejected.
_BY_STATUS: dict[int, type[errors.InferenceError]] = {
    401: errors.Unauthorised,
    403: errors.Unauthorised,
    408: errors.TimedOut,
    424: errors.Unavailable,  # TGI: the shard failed; TEI: the backend failed
    429: errors.Overloaded,
    504: errors.TimedOut,
}
# Words that servers put in `error_type`, `type` or the message. First match wins.
_BY_WORDING: tuple[tuple[str, type[errors.InferenceError]], ...] = (
    ("overloaded", errors.Overloaded),
    ("rate_limit", errors.Overloaded),
    ("incomplete", errors.Interrupted),
    ("authentication", errors.Unauthorised),
    ("unauthorized", errors.Unauthorised),
    ("during generation", errors.Unavailable),
    ("unavailable", errors.Unavailable),
    ("unhealthy", errors.Unavailable),
    ("loading model", errors.Unavailable),
    ("validation", errors.Rejected),
    ("template", errors.Rejected),
    ("tool_error", errors.Rejected),
    ("tool error", errors.Rejected),
    ("invalid_request", errors.Rejected),
    ("badrequest", errors.Rejected),
    ("exceed_context", errors.Rejected),
    ("not_found", errors.Rejected),
    # TEI answers 424, a server's fault, when the route does not fit the model it serves.
    ("model is not a", errors.Rejected),
)
_ADVICE: dict[type[errors.InferenceError], str] = {
    errors.Unauthorised: "Check the key set for it.",
    errors.Overloaded: "Try again shortly, or add replicas.",
    errors.TimedOut: "Try again; if it repeats, look at the server's load.",
    errors.Unavailable: "Check that it is up and has finished loading.",
    errors.Interrupted: "Try again; if it repeats, look at the server's log.",
    errors.Rejected: "Check the model's name, the address and the length of the input.",
    errors.ProtocolError: "Check that the address is that of the right kind of server.",
}


@dataclass(frozen=True)
class Fault:
    """An error body, whichever server wrote it."""

    message: str
    kind: str = ""
    status: int | None = None  # as the body tells it


def parse_fault(payload: object) -> Fault | None:
    """The fault in a decoded JSON body or stream event; None where it is no error.

    TGI and TEI: `{"error": str, "error_type": str}`; chat routes: `{"error": {"message", …}}`;
    TEI's `/v1/embeddings` and older vLLM: `{"message", "type", "code"}`.
    """
    if not isinstance(payload, dict):
        return None
    error: Any = payload.get("error")
    if isinstance(error, str):
        return Fault(error, str(payload.get("error_type") or payload.get("type") or ""))
    if isinstance(error, dict):
        return _openai_fault(error)
    if isinstance(payload.get("message"), str) and ("code" in payload or "type" in payload):
        return _openai_fault(payload)
    return None


def _openai_fault(error: dict[str, Any]) -> Fault:
    # `http_status_code` is TGI's constant 422 and says nothing of the cause: it is left aside.
    code = error.get("code")
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    return Fault(str(error.get("message") or ""), str(error.get("type") or ""), status)


def fault_of_body(body: bytes) -> Fault:
    """The fault in a refusal's body: JSON of any known shape, plain text, or nothing at all."""
    text = body.decode("utf-8", "replace").strip()
    try:
        fault = parse_fault(json.loads(text))
    except ValueError:
        fault = None
    return fault or Fault(text)


def refusal(where: str, status: int, body: bytes) -> errors.InferenceError:
    """The error for an HTTP reply whose status is not 2xx. `where` names server and address."""
    fault = fault_of_body(body)
    if 300 <= status < 400:
        return errors.ProtocolError(
            f"{where} answered with a redirect ({status}), which is not followed because the "
            "request carries a key. Set the final address."
        )
    kind = _kind_of_status(status, fault)
    return kind(
        f"{where} refused: HTTP {status}{_label(fault)}. {_ADVICE[kind]}", detail=_cut(fault)
    )


def in_band(where: str, fault: Fault) -> errors.InferenceError:
    """The error for a fault that came inside a stream which had begun with status 200."""
    kind = _kind_of_wording(fault)
    if kind is None:
        status = fault.status or 0
        kind = _kind_of_status(status, fault) if 400 <= status < 500 else errors.Interrupted
    message = f"{where} broke off with an error in its stream{_label(fault)}. {_ADVICE[kind]}"
    return kind(message, detail=_cut(fault))


def _kind_of_status(status: int, fault: Fault) -> type[errors.InferenceError]:
    if status == 424 and _kind_of_wording(fault) is errors.Rejected:
        return errors.Rejected
    if status == 500 and _kind_of_wording(fault) is errors.Interrupted:
        return errors.Interrupted
    return _BY_STATUS.get(status, errors.Unavailable if status >= 500 else errors.Rejected)


def _kind_of_wording(fault: Fault) -> type[errors.InferenceError] | None:
    wording = f"{fault.kind} {fault.message}".lower()
    return next((kind for word, kind in _BY_WORDING if word in wording), None)


def _label(fault: Fault) -> str:
    # The kind is a fixed word of the server's; the message may quote the prompt and stays out.
    word = "".join(c for c in fault.kind if c.isalnum() or c in "_ ")[:40]
    return f", {word}" if word else ""


def _cut(fault: Fault) -> str:
    return fault.message[:DETAIL_CHARS]
