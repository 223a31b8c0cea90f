"""Sending spans over OTLP/HTTP with OpenTelemetry's SDK; imported when the first one goes out.

The SDK's tracer gives a span its id when it is started. Ours have theirs before, so the spans are
built here and handed to the SDK's batches.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from urllib.parse import unquote

from django.conf import settings
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from apps.telemetry.trace_context import Place
from apps.telemetry.tracing import Ended

_PATH = "v1/traces"  # below the endpoint, as the OTLP specification says
_EXPORT_TIMEOUT_S = 5.0
_EXIT_TIMEOUT_S = 2.0  # a process that ends waits no longer for a collector
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCOPE = InstrumentationScope("ragsite")
_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}


def add(spans: Iterable[Ended]) -> None:
    """Put those that are sampled into the queue; a full queue drops the oldest."""
    batches, resource = _sending()
    for span in spans:
        place = Place.read(span.place)
        if place is not None and place.sampled:
            batches.on_end(_readable(span, place, resource))


def flush() -> None:
    """Send what is in the queue and return when that is done."""
    _sending()[0].force_flush()


def _sending() -> tuple[BatchSpanProcessor, Resource]:
    return _sending_to(
        settings.OTEL_EXPORTER_OTLP_ENDPOINT,
        settings.OTEL_EXPORTER_OTLP_HEADERS,
        settings.OTEL_SERVICE_NAME,
    )


@cache
def _sending_to(endpoint: str, headers: str, service: str) -> tuple[BatchSpanProcessor, Resource]:
    """The SDK's queue and its thread, which also outlive a fork."""
    exporter = OTLPSpanExporter(
        endpoint=f"{endpoint.rstrip('/')}/{_PATH}",
        headers=_pairs(headers),
        timeout=_EXPORT_TIMEOUT_S,
    )
    batches = BatchSpanProcessor(exporter)
    atexit.register(_end, batches, exporter)
    return batches, Resource.create({"service.name": service})


def _end(batches: BatchSpanProcessor, exporter: OTLPSpanExporter) -> None:
    """Send the last ones, but not for the half minute that the SDK would try to."""
    last = threading.Thread(target=batches.shutdown, daemon=True)
    last.start()
    last.join(_EXIT_TIMEOUT_S)
    if last.is_alive():
        # Wakes it out of waiting for the next try.
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _readable(span: Ended, place: Place, resource: Resource) -> ReadableSpan:
    error = {"error.type": span.error_code} if span.error_code else {}
    parent = Place.read(span.parent)
    return ReadableSpan(
        name=span.name,
        context=_context(place, is_remote=False),
        parent=_context(parent, is_remote=span.kind == "server") if parent else None,
        resource=resource,
        attributes={**span.attributes, **error},
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR if span.error_code else StatusCode.UNSET),
        start_time=_unix_ns(span.started_at),
        end_time=_unix_ns(span.started_at + timedelta(milliseconds=span.total_ms)),
        instrumentation_scope=_SCOPE,
    )


def _unix_ns(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def _context(place: Place, *, is_remote: bool) -> SpanContext:
    return SpanContext(place.trace_id, place.span_id, is_remote, TraceFlags(int(place.sampled)))


def _pairs(headers: str) -> dict[str, str]:
    """`name=value,name=value`, values percent-encoded, as the OTLP specification has them."""
    pairs = (part.partition("=") for part in headers.split(",") if "=" in part)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
