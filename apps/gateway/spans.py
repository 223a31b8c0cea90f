"""The gateway's spans: the steps of a request, and each call to a model server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apps.gateway.types import Call, Caller
from apps.telemetry.hops import Attribute
from apps.telemetry.trace_context import child_of, is_on
from apps.telemetry.tracing import Ended, export


def export_step(caller: Caller, name: str, ms: float, **attributes: Attribute) -> None:
    """A step of a request that has just ended: its admission, what the cache did."""
    if not is_on():
        return
    began = datetime.now(UTC) - timedelta(milliseconds=ms)
    export(_child(caller, name, began, ms, {f"ragsite.{k}": v for k, v in attributes.items()}))


def export_call(caller: Caller, call: Call, place: str) -> None:
    """A call that has just ended: its wait in line, and what the server made of it at `place`."""
    if not is_on() or not call.upstream:
        return
    began = datetime.now(UTC) - timedelta(milliseconds=call.total_ms)
    figures: dict[str, Attribute] = {
        "gen_ai.request.model": call.model,
        "gen_ai.usage.input_tokens": call.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": call.usage.output_tokens,
        "ragsite.upstream": call.upstream,
        "ragsite.hop": call.hop,
        "ragsite.attempts": call.attempts,
        "ragsite.outcome": call.outcome.value,
    }
    if call.first_token_ms is not None:
        figures["ragsite.first_token_ms"] = call.first_token_ms
    upstream = Ended(
        name="upstream",
        place=place,
        parent=caller.traceparent,
        started_at=began + timedelta(milliseconds=call.queue_ms),
        total_ms=call.total_ms - call.queue_ms,
        kind="client",
        error_code=call.error_code,
        attributes=figures,
    )
    export(_child(caller, "queue", began, call.queue_ms, {}), upstream)


def _child(
    caller: Caller, name: str, began: datetime, ms: float, figures: dict[str, Attribute]
) -> Ended:
    return Ended(
        name=name,
        place=child_of(caller.traceparent),
        parent=caller.traceparent,
        started_at=began,
        total_ms=ms,
        attributes=figures,
    )
