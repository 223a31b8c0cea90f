"""The spans of an API request at a collector: joined to the caller's, and free of text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from apps.telemetry import otlp
from tests.contract.collector import Collector, attributes
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.api_world import CHAT, chat
from tests.gateway.asgi import ask

pytestmark = pytest.mark.django_db(transaction=True)

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLERS = f"00-{TRACE}-{PARENT}-01"
UNCACHED = {"cache-control": "no-cache"}


@pytest.fixture
def collector(settings: Settings) -> Iterator[Collector]:
    with Collector() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = running.url
        yield running
        batches, _ = otlp._sending()
        otlp._end(batches, batches.span_exporter)
        otlp._sending_to.cache_clear()


async def test_a_requests_spans_join_the_callers_and_the_model_servers(
    key: str, tgi: TgiDouble, collector: Collector
) -> None:
    await ask("POST", CHAT, chat(stream=True), key=key, headers={"traceparent": CALLERS})
    otlp.flush()

    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    request = collector.span(f"POST {CHAT}")
    assert request.parent_span_id.hex() == PARENT
    steps = {span.name: span for span in collector.spans if span.name != request.name}
    assert {"admission", "cache", "queue", "upstream"} <= steps.keys()
    assert {n: s.parent_span_id for n, s in steps.items()} == dict.fromkeys(steps, request.span_id)
    (sent,) = [r for r in tgi.requests if r.path == CHAT]
    assert sent.headers["traceparent"] == f"00-{TRACE}-{steps['upstream'].span_id.hex()}-01"


async def test_a_calls_span_has_its_figures(key: str, tgi: TgiDouble, collector: Collector) -> None:
    await ask("POST", CHAT, chat(), key=key)
    otlp.flush()

    figures = attributes(collector.span("upstream"))
    assert figures["gen_ai.request.model"] == "tgi"
    assert figures["gen_ai.usage.output_tokens"] == 5
    assert figures["ragsite.outcome"] == "complete"


async def test_a_call_that_failed_says_why(key: str, tgi: TgiDouble, collector: Collector) -> None:
    tgi.default = Behaviour(failure="reset", fail_after=2)
    await ask("POST", CHAT, chat(stream=True), key=key)
    otlp.flush()

    upstream = collector.span("upstream")
    assert upstream.status.code == upstream.status.STATUS_CODE_ERROR
    assert attributes(upstream)["error.type"] == "interrupted"


async def test_nothing_of_the_question_the_answer_or_the_key_is_sent(
    key: str, tgi: TgiDouble, collector: Collector
) -> None:
    await ask("POST", CHAT, chat(stream=True), key=key)
    await ask("POST", CHAT, chat(model="nobody knows this"), key=key)
    otlp.flush()

    assert collector.spans
    for text in ("capital of France", "Paris", "nobody knows", key, key[:12]):
        assert text.encode() not in collector.bytes


async def test_a_caller_is_joined_to_the_model_server_also_without_a_collector(
    key: str, tgi: TgiDouble
) -> None:
    await ask("POST", CHAT, chat(), key=key, headers={"traceparent": CALLERS, **UNCACHED})
    await ask("POST", CHAT, chat(), key=key, headers={"traceparent": "nonsense", **UNCACHED})
    joined, alone = [r.headers.get("traceparent") for r in tgi.requests if r.path == CHAT]
    assert (joined, alone) == (CALLERS, None)
