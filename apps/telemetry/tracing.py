"""Spans for an OpenTelemetry collector, made from figures once what they measure has ended.

Off, and then without cost, unless OTEL_EXPORTER_OTLP_ENDPOINT is set. A thread sends them in
batches; nothing waits for the collector, and while it is away spans are dropped. Names,
identifiers and figures only: never text, a prompt or a key.

A span's place is made first (`trace_context.child_of`), so that it can go out with a request to a
model server; the span itself when its time is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from apps.telemetry.hops import Attribute, Hop, Trace
from apps.telemetry.trace_context import child_of, is_on

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Ended:
    """A stretch of work that is over."""

    name: str
    place: str  # its traceparent, from child_of
    started_at: datetime
    total_ms: float
    parent: str = ""  # traceparent of what it was part of
    kind: Literal["internal", "server", "client"] = "internal"
    error_code: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


def export(*spans: Ended) -> None:
    """Hand spans to the exporter; returns at once, whatever state the collector is in."""
    if is_on():
        # Only now: the SDK and what it needs take 125 ms and 28 MB to import.
        from apps.telemetry import otlp

        otlp.add(spans)


def export_trace(trace: Trace) -> None:
    """One span for the answer or ingestion, and one for each of its hops."""
    if not is_on() or not trace.hops:
        return
    began = min(hop.started_at for hop in trace.hops)
    ended = max(hop.started_at + hop.work_ms * _MS for hop in trace.hops)
    whole = Ended(
        name=trace.kind,
        place=trace.traceparent,
        parent=trace.parent,
        started_at=began,
        total_ms=(ended - began) / _MS,
        attributes={"ragsite.tenant": str(trace.tenant_id), "ragsite.trace": str(trace.trace_id)},
    )
    export(whole, *(_of_hop(trace, hop) for hop in trace.hops))


def _of_hop(trace: Trace, hop: Hop) -> Ended:
    return Ended(
        name=hop.name,
        place=child_of(trace.traceparent),
        parent=trace.traceparent,
        started_at=hop.started_at,
        total_ms=hop.work_ms,
        error_code=hop.error_code if hop.status == "error" else "",
        attributes={
            **{f"ragsite.{name}": value for name, value in hop.attributes.items()},
            "ragsite.status": hop.status,
            "ragsite.wait_ms": hop.wait_ms,
        },
    )
