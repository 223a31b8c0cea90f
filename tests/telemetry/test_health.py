"""What the machines that watch the site see."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from tests.cast import Cast, signed_in

SECRET = "a-very-secret-token"


def test_liveness_needs_neither_database_nor_redis() -> None:
    assert Client().get("/healthz").status_code == 200


def test_ready_when_every_part_answers() -> None:
    response = Client().get("/readyz")
    assert response.status_code == 200
    body = response.json()
    assert body["ready"] is True
    assert {name: part["ok"] for name, part in body["parts"].items()} == {
        "database": True,
        "redis": True,
    }


@pytest.mark.parametrize(
    ("setting", "part", "url"),
    [
        ("DATABASE_URL", "database", "postgresql://someone:hunter2@127.0.0.1:1/nowhere"),
        ("REDIS_URL", "redis", "redis://:hunter2@127.0.0.1:1/0"),
    ],
)
def test_not_ready_names_the_part_and_no_secret(
    settings: Settings, setting: str, part: str, url: str
) -> None:
    setattr(settings, setting, url)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["ready"] is False
    assert response.json()["parts"][part]["ok"] is False
    assert "hunter2" not in response.content.decode()
    assert "127.0.0.1" not in response.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "header", ["", "Bearer ", "Bearer wrong", SECRET, f"bearer {SECRET}x", "Bearer é"]
)
def test_metrics_are_not_there_for_strangers(settings: Settings, header: str) -> None:
    settings.METRICS_TOKEN = SECRET
    assert Client().get("/metrics", headers={"Authorization": header}).status_code == 404


@pytest.mark.django_db
def test_an_empty_token_lets_nobody_in(settings: Settings) -> None:
    settings.METRICS_TOKEN = ""
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404


@pytest.mark.django_db
def test_metrics_count_hops_for_the_token(cast: Cast, settings: Settings) -> None:
    settings.METRICS_TOKEN = SECRET
    trace = Trace(cast.acme.id, "answer")
    with trace.hop("embed"):
        pass
    record_trace(trace)
    response = Client().get("/metrics", headers={"Authorization": f"Bearer {SECRET}"})
    assert response.status_code == 200
    expected = 'ragsite_hop_seconds_count{hop="embed",kind="answer",status="ok"}'
    assert expected in response.content.decode()


@pytest.mark.django_db
def test_metrics_are_open_to_operations_only(cast: Cast) -> None:
    assert signed_in(cast.olga).get("/metrics").status_code == 200
    assert signed_in(cast.alice).get("/metrics").status_code == 404
