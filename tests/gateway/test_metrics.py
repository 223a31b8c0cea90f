"""What /metrics tells of the gateway: calls, refusals, answers, and what the stores know."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone
from prometheus_client import REGISTRY, generate_latest
from pytest_django import Settings

from apps.gateway.ledger.booking import book
from apps.gateway.metrics import count_refusal, count_response
from apps.gateway.models import Reservation
from apps.gateway.types import CacheNote, CacheResult, Call, Caller, Outcome, Source, Usage
from tests.cast import Cast

CALL = Call(
    hop="generate",
    model="metrics-model",
    upstream="metrics-upstream",
    usage=Usage(100, 20, 30),
    queue_ms=20.0,
    first_token_ms=50.0,
    total_ms=200.0,
)
WHERE = {"model": "metrics-model", "upstream": "metrics-upstream"}


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"ragsite_gateway_{name}", labels) or 0.0


def caller(cast: Cast) -> Caller:
    return Caller(cast.acme.id, "UTC", Source.API, key_id=uuid.uuid4(), user_id=cast.bob.id)


@pytest.mark.django_db(transaction=True)
def test_a_booked_call_is_counted(cast: Cast) -> None:
    before = value("tokens_total", **WHERE, kind="prompt")
    book(caller(cast), uuid.uuid4(), CALL, None)

    ended = {"source": "api", "hop": "generate", "outcome": "complete"}
    assert value("calls_total", **WHERE, **ended) == 1
    assert value("tokens_total", **WHERE, kind="prompt") - before == 100
    assert value("tokens_total", **WHERE, kind="cached") == 20
    assert value("tokens_total", **WHERE, kind="output") == 30
    assert value("queue_seconds_sum", **WHERE) == pytest.approx(0.02)
    assert value("first_token_seconds_bucket", **WHERE, le="0.1") == 1


@pytest.mark.django_db(transaction=True)
def test_a_cached_answer_is_counted_with_what_it_saved(cast: Cast) -> None:
    labels = {"hop": "generate", "result": "hit", "reason": ""}
    before = value("cache_total", **labels), value("saved_micros_total", hop="generate")
    note = CacheNote(CacheResult.HIT, saved_micros=70)
    book(caller(cast), uuid.uuid4(), Call(hop="generate", model="metrics-cached", cache=note), None)

    assert value("cache_total", **labels) - before[0] == 1
    assert value("saved_micros_total", hop="generate") - before[1] == 70


@pytest.mark.django_db(transaction=True)
def test_a_call_that_was_lost_has_no_times(cast: Cast) -> None:
    lost = Call(hop="generate", model="lost", upstream="lost", outcome=Outcome.LOST)
    book(caller(cast), uuid.uuid4(), lost, None)
    assert value("calls_total", source="api", hop="generate", outcome="lost", model="lost",
                 upstream="lost") == 1  # fmt: skip
    assert value("queue_seconds_count", model="lost", upstream="lost") == 0


def test_refusals_and_answers_are_counted() -> None:
    refused = {"source": "api", "code": "rate_limit_exceeded"}
    answered = {"route": "/v1/rerank", "status": "429"}
    before = value("refusals_total", **refused), value("responses_total", **answered)
    count_refusal(Source.API, "rate_limit_exceeded")
    count_response("/v1/rerank", 429)
    assert value("refusals_total", **refused) - before[0] == 1
    assert value("responses_total", **answered) - before[1] == 1


@pytest.mark.django_db(transaction=True)
def test_reservations_and_upstreams_are_asked_for(cast: Cast, settings: Settings) -> None:
    settings.TGI_URL = "http://127.0.0.1:1"
    now = timezone.now()
    Reservation.objects.create(
        tenant_id=cast.acme.id, micros=500, tokens=10, month_start=now, day_start=now,
        started_at=now, expires_at=now + timedelta(minutes=1),
    )  # fmt: skip

    assert value("reservations_open") == 1
    assert value("reserved_micros") == 500
    assert value("upstream_places", upstream="tgi") == settings.GENERATION_CONCURRENCY
    assert value("upstream_places_held", upstream="tgi") == 0
    assert value("upstream_breaker_open", upstream="tgi") == 0
    # Nobody has looked at it: not up, not down.
    assert REGISTRY.get_sample_value("ragsite_gateway_upstream_up", {"upstream": "tgi"}) is None


@pytest.mark.django_db(transaction=True)
def test_metrics_are_given_while_redis_is_away(settings: Settings) -> None:
    settings.TGI_URL = "http://127.0.0.1:1"
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    text = generate_latest().decode()
    assert "ragsite_gateway_reservations_open" in text
    assert "ragsite_gateway_upstream_places{" not in text


@pytest.mark.django_db(transaction=True)
def test_nobodys_name_is_in_the_metrics(cast: Cast) -> None:
    who = caller(cast)
    book(who, uuid.uuid4(), CALL, None)
    text = generate_latest().decode()
    assert str(who.tenant_id) not in text
    assert str(who.key_id) not in text
    assert f'"{cast.bob.id}"' not in text
