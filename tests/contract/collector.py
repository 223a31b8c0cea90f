"""An OpenTelemetry collector: takes OTLP over HTTP, and keeps the spans."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.contract.loopback import Exchange, LoopbackServer


class Collector(LoopbackServer):
    """`with Collector() as collector: collector.url`, the base address; no path."""

    def handle(self, exchange: Exchange) -> None:
        reply = ExportTraceServiceResponse().SerializeToString()
        exchange.reply(200, reply, "application/x-protobuf")

    @property
    def bytes(self) -> bytes:
        """All that was ever sent here, headers included."""
        return b"".join(
            repr(sorted(exchange.headers.items())).encode() + exchange.body
            for exchange in self.requests
        )

    @property
    def spans(self) -> list[Any]:
        """Every span received, in the protocol's own form."""
        return [
            span
            for exchange in self.requests
            for resource in ExportTraceServiceRequest.FromString(exchange.body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def span(self, name: str) -> Any:
        """The only span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes as Python values."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes
    }
