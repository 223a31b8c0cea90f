"""Demand out of the ledger: whose rows, which of them, and with what denominators."""

from __future__ import annotations

import statistics
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.capacity.planning import ledger
from apps.capacity.planning.ledger import read_demand
from tests.cast import Cast
from tests.gateway.entries import booked

pytestmark = pytest.mark.django_db


def ago(**before: float) -> object:
    return timezone.now() - timedelta(**before)


def test_without_an_answer_there_is_no_demand(cast: Cast) -> None:
    assert read_demand(None, 7) is None
    booked(cast.acme.id, ago(hours=1), hop="embed")
    booked(cast.acme.id, ago(hours=1), outcome="failed")
    booked(cast.acme.id, ago(days=8))
    booked(cast.acme.id, ago(hours=1), upstream="", cache="hit")
    assert read_demand(None, 7) is None


def test_lengths_are_those_of_complete_answers(cast: Cast) -> None:
    prompts = [100 * n for n in range(1, 21)]
    for prompt in prompts:
        booked(cast.acme.id, ago(hours=2), prompt_tokens=prompt, output_tokens=prompt // 10)
    booked(cast.acme.id, ago(hours=2), prompt_tokens=99_999, outcome="stopped")
    found = read_demand(cast.acme.id, 7)
    assert found is not None
    assert (found.calls, found.complete) == (21, 20)
    assert found.prompt.mean == pytest.approx(statistics.mean(prompts))
    assert found.prompt.stdev == pytest.approx(statistics.stdev(prompts))
    assert found.prompt.p50 == pytest.approx(1050)
    assert found.prompt.p95 == pytest.approx(1905)
    assert found.prompt.p99 == pytest.approx(1981)
    assert found.output.p50 == pytest.approx(105)


def test_a_tenant_is_read_alone_and_operations_read_all(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), prompt_tokens=100)
    booked(cast.rival.id, ago(hours=1), prompt_tokens=300)
    own, everybody = read_demand(cast.acme.id, 7), read_demand(None, 7)
    assert own is not None
    assert own.prompt.mean == 100
    assert everybody is not None
    assert everybody.prompt.mean == 200


def test_reuse_is_a_share_of_what_servers_reported(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), prompt_tokens=300, cached_tokens=100)
    booked(cast.acme.id, ago(hours=1), prompt_tokens=100, cached_tokens=0)
    booked(cast.acme.id, ago(hours=1), prompt_tokens=5000, tokens_estimated=True)
    found = read_demand(cast.acme.id, 7)
    assert found is not None
    assert (found.prompt_tokens, found.reused_tokens, found.estimated) == (400, 100, 1)
    assert found.prefix_reuse == 0.25


def test_without_a_reported_token_reuse_is_not_known(cast: Cast) -> None:
    booked(cast.acme.id, ago(hours=1), tokens_estimated=True)
    found = read_demand(cast.acme.id, 7)
    assert found is not None
    assert found.prefix_reuse is None


def test_arrivals_count_what_failed_and_leave_out_what_a_cache_answered(cast: Cast) -> None:
    busy = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
    for n in range(6):
        booked(cast.acme.id, busy + timedelta(minutes=n), outcome="failed" if n else "complete")
    booked(cast.acme.id, busy, upstream="", cache="hit")
    booked(cast.acme.id, ago(hours=1))
    found = read_demand(cast.acme.id, 7)
    assert found is not None
    assert found.calls == 7
    assert found.cached_answers == 1
    assert found.busiest_hour == busy
    assert found.busiest_per_s == pytest.approx(6 / 3600)
    # A day and some hours were measured, though seven days were asked for.
    assert found.measured_days == pytest.approx(30 / 24, abs=2 / 24)
    assert found.calls_a_day == pytest.approx(7 / found.measured_days, rel=1e-3)


def test_more_rows_than_are_looked_at_shorten_the_stretch(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MOST_ROWS", 4)
    for days in (6, 5, 4, 3, 2, 1):
        booked(cast.acme.id, ago(days=days))
    found = read_demand(cast.acme.id, 7)
    assert found is not None
    assert found.is_cut
    assert found.calls == 4
    assert found.measured_days == pytest.approx(4, abs=0.1)
