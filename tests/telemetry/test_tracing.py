"""Spans of answers and ingestions at an OpenTelemetry collector."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from apps.telemetry import otlp
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.telemetry.trace_context import Place, child_of
from apps.telemetry.tracing import Ended, export
from tests.contract.collector import Collector, attributes

CALLERS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = CALLERS[:-2] + "00"


@pytest.fixture(autouse=True)
def _end_sending(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is left to be sent when the tests' process ends."""
    yield
    if settings.OTEL_EXPORTER_OTLP_ENDPOINT:
        monkeypatch.setattr(otlp, "_EXIT_TIMEOUT_S", 0.05)
        batches, _ = otlp._sending()
        otlp._end(batches, batches.span_exporter)
    otlp._sending_to.cache_clear()


@pytest.fixture
def collector(settings: Settings) -> Iterator[Collector]:
    with Collector() as running:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = running.url
        yield running


@pytest.mark.django_db
def test_hops_of_an_answer_are_children_of_its_span(collector: Collector) -> None:
    trace = Trace(uuid.uuid4(), "answer")
    with trace.hop("search", wait_ms=3.0) as hop:
        hop.set(candidates=40)
    record_trace(trace)
    otlp.flush()

    answer, search = collector.span("answer"), collector.span("search")
    assert answer.trace_id == search.trace_id == trace.trace_id.bytes
    assert (answer.parent_span_id, search.parent_span_id) == (b"", answer.span_id)
    assert attributes(search) == {
        "ragsite.candidates": 40,
        "ragsite.status": "ok",
        "ragsite.wait_ms": 3.0,
    }
    assert answer.start_time_unix_nano <= search.start_time_unix_nano
    assert search.end_time_unix_nano <= answer.end_time_unix_nano


@pytest.mark.django_db
def test_a_trace_joins_its_callers(collector: Collector) -> None:
    trace = Trace(uuid.uuid4(), "answer", parent=CALLERS)
    with trace.hop("search"):
        pass
    record_trace(trace)
    otlp.flush()

    answer = collector.span("answer")
    assert answer.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert answer.parent_span_id.hex() == "b7ad6b7169203331"
    assert collector.span("search").trace_id == answer.trace_id


@pytest.mark.django_db
def test_a_caller_that_does_not_record_is_not_recorded_here(collector: Collector) -> None:
    trace = Trace(uuid.uuid4(), "answer", parent=NOT_SAMPLED)
    with trace.hop("search"):
        pass
    record_trace(trace)
    otlp.flush()

    assert trace.traceparent.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert collector.spans == []


@pytest.mark.django_db
def test_an_error_is_marked_by_its_code(collector: Collector) -> None:
    trace = Trace(uuid.uuid4(), "answer")
    with pytest.raises(ZeroDivisionError), trace.hop("generate"):
        raise ZeroDivisionError
    record_trace(trace)
    otlp.flush()

    span = collector.span("generate")
    assert span.status.code == span.status.STATUS_CODE_ERROR
    assert attributes(span)["error.type"] == "ZeroDivisionError"
    assert span.status.message == ""


def test_a_share_of_new_traces_is_sent(collector: Collector, settings: Settings) -> None:
    settings.OTEL_TRACES_SAMPLER_ARG = 0.25
    places = [Place.read(child_of("")) for _ in range(2000)]
    taken = sum(place is not None and place.sampled for place in places)
    assert 400 < taken < 600


@pytest.mark.django_db
def test_nothing_is_sent_without_an_endpoint(settings: Settings) -> None:
    assert settings.OTEL_EXPORTER_OTLP_ENDPOINT == ""
    with Collector() as collector:
        trace = Trace(uuid.uuid4(), "answer")
        with trace.hop("search"):
            pass
        record_trace(trace)
        assert collector.requests == []


def test_without_tracing_a_callers_place_is_handed_on() -> None:
    assert child_of(CALLERS) == CALLERS
    assert child_of("") == ""


def test_nobody_waits_for_a_collector_that_does_not_answer(settings: Settings) -> None:
    release = threading.Event()

    class Stuck(Collector):
        def handle(self, exchange: object) -> None:
            release.wait(10)

    with Stuck() as collector:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url
        span = Ended("upstream", child_of(""), datetime.now(UTC), 1.0)
        # More than the queue holds: the oldest are dropped.
        for _ in range(5000):
            export(span)
        assert not release.is_set()
        release.set()


def test_a_collector_that_is_away_harms_nobody(settings: Settings) -> None:
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:1"
    export(Ended("upstream", child_of(""), datetime.now(UTC), 1.0))


@pytest.mark.parametrize(
    "traceparent",
    [
        *("", "nonsense", CALLERS.upper(), CALLERS + "\r\nx: y", CALLERS + "-more", CALLERS[:-1]),
        "ff" + CALLERS[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        "٠٠-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        CALLERS * 1000,
    ],
)
def test_a_header_that_is_no_trace_context_begins_a_new_trace(
    collector: Collector, traceparent: str
) -> None:
    place = Place.read(child_of(traceparent))
    assert place is not None
    assert f"{place.trace_id:032x}" not in traceparent


def test_later_versions_of_the_header_are_read() -> None:
    assert Place.read("01" + CALLERS[2:] + "-what-comes-later") == Place.read(CALLERS)


def test_headers_for_the_collector_are_sent(collector: Collector, settings: Settings) -> None:
    settings.OTEL_EXPORTER_OTLP_HEADERS = "authorization=Bearer%20abc, x-team = search"
    export(Ended("upstream", child_of(""), datetime.now(UTC), 1.0))
    otlp.flush()

    (request,) = collector.requests
    assert request.path == "/v1/traces"
    assert request.headers["authorization"] == "Bearer abc"
    assert request.headers["x-team"] == "search"
