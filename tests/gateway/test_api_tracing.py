"""A request's span stands below its caller's, and what it leads to below that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from apps.telemetry import otlp
from tests.contract.collector import Collector, attributes
from tests.contract.tgi import TgiDouble
from tests.gateway.api_world import CHAT, chat
from tests.gateway.asgi import ask

pytestmark = pytest.mark.django_db(transaction=True)
CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = running.url
        yield running
        monkeypatch.setattr(otlp, "_EXIT_TIMEOUT_S", 0.05)
        batches, _ = otlp._sending()
        otlp._end(batches, batches.span_exporter)
    otlp._sending_to.cache_clear()


async def test_a_request_joins_its_callers_trace(
    key: str, tgi: TgiDouble, collector: Collector
) -> None:
    answer = await ask("POST", CHAT, chat(), key=key, headers={"traceparent": CALLERS})
    otlp.flush()
    span = collector.span(f"POST {CHAT}")
    assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert attributes(span)["ragsite.request"] == answer.headers["x-request-id"]


async def test_a_request_of_nobodys_trace_begins_one(
    key: str, tgi: TgiDouble, collector: Collector
) -> None:
    await ask("POST", CHAT, chat(), key=key, headers={"traceparent": "00-garbage"})
    otlp.flush()
    assert collector.span(f"POST {CHAT}").parent_span_id == b""
