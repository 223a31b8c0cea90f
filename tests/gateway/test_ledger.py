"""Figures out of the ledger, against sums made by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from apps.gateway.ledger import selectors
from apps.gateway.ledger.days import day_start, month_of
from apps.gateway.ledger.selectors import Dimension, Period
from apps.gateway.models import LedgerEntry
from ragsite.stack.postgres import SUPERUSER
from tests import parts
from tests.gateway.entries import NOON, booked, medley

pytestmark = pytest.mark.django_db
ACME, RIVAL = uuid.UUID(int=100), uuid.UUID(int=200)
MARCH = Period(date(2026, 3, 1), date(2026, 3, 31))


def many(tenant_id: uuid.UUID, count: int = 300, seed: int = 0) -> list[LedgerEntry]:
    return LedgerEntry.objects.bulk_create(medley(tenant_id, count, seed=seed))


def test_totals_are_the_sums_of_the_rows() -> None:
    rows = many(ACME)
    sums = selectors.totals(ACME, MARCH)
    assert sums.calls == len(rows)
    assert sums.answers == sum(row.hop == "generate" for row in rows)
    for name in ("prompt_tokens", "cached_tokens", "output_tokens", "cost_micros", "saved_micros"):
        assert getattr(sums, name) == sum(getattr(row, name) for row in rows)
    assert sums.unpriced_calls == sum(bool(row.upstream) and row.price_id is None for row in rows)
    assert sums.estimated_calls == sum(row.tokens_estimated for row in rows)
    assert sums.failed == sum(row.outcome in ("failed", "timed_out", "lost") for row in rows)
    assert sums.saved_ms == pytest.approx(sum(row.saved_ms for row in rows))
    assert sums.first_token_calls == sum(row.first_token_ms is not None for row in rows)
    assert sums.mean_first_token_ms == pytest.approx(
        sum(row.first_token_ms or 0 for row in rows) / sums.first_token_calls
    )


def test_nothing_booked_is_nothing_spent() -> None:
    assert selectors.totals(ACME, MARCH) == selectors.Sums()
    assert selectors.by(ACME, MARCH, "model") == []
    assert selectors.per_unit(ACME, MARCH) == selectors.PerUnit(0, None, 0, None)
    assert selectors.dearest(ACME, MARCH) == []
    assert selectors.caches(ACME, MARCH)[0].hit_ratio is None


def test_figures_are_the_tenants_own_and_operations_see_all() -> None:
    many(ACME, 50)
    many(RIVAL, 70, seed=1)
    assert selectors.totals(ACME, MARCH).calls == 50
    assert selectors.totals(None, MARCH).calls == 120
    lines = selectors.by(None, MARCH, "tenant")
    assert {line.key: line.sums.calls for line in lines} == {str(ACME): 50, str(RIVAL): 70}
    assert {row.tenant_id for row in selectors.rows(RIVAL, MARCH)} == {RIVAL}
    assert {row.tenant_id for row in selectors.dearest(RIVAL, MARCH)} == {RIVAL}


KEYS: dict[Dimension, Callable[[Any], str]] = {
    "model": lambda row: row.model,
    "user": lambda row: str(row.user_id or ""),
    "key": lambda row: str(row.key_id or ""),
    "source": lambda row: row.source,
    "upstream": lambda row: row.upstream,
    "hop": lambda row: row.hop,
    "tenant": lambda row: str(row.tenant_id),
    "collection": lambda row: (
        "several" if len(row.collection_ids) > 1 else "".join(map(str, row.collection_ids))
    ),
}


@pytest.mark.parametrize("dimension", KEYS)
def test_each_dimension_splits_the_same_sum_dearest_first(dimension: Dimension) -> None:
    rows = many(ACME)
    by_hand: dict[str, int] = {}
    for row in rows:
        key = KEYS[dimension](row)
        by_hand[key] = by_hand.get(key, 0) + row.cost_micros
    lines = selectors.by(ACME, MARCH, dimension)
    assert {line.key: line.sums.cost_micros for line in lines} == by_hand
    costs = [line.sums.cost_micros for line in lines]
    assert costs == sorted(costs, reverse=True)


def test_days_come_in_order_with_the_empty_ones() -> None:
    booked(ACME, NOON)
    booked(ACME, NOON + timedelta(days=2))
    lines = selectors.by(ACME, Period(date(2026, 3, 9), date(2026, 3, 13)), "day")
    assert [(line.key, line.sums.calls) for line in lines] == [
        ("2026-03-09", 0),
        ("2026-03-10", 1),
        ("2026-03-11", 0),
        ("2026-03-12", 1),
        ("2026-03-13", 0),
    ]


@pytest.mark.parametrize(
    ("time_zone", "day"),
    [
        ("UTC", "2026-03-10"),
        ("Pacific/Kiritimati", "2026-03-11"),  # UTC+14
        ("Pacific/Pago_Pago", "2026-03-10"),  # UTC-11
        ("Asia/Kathmandu", "2026-03-11"),  # UTC+5:45
        ("no/such_zone", "2026-03-10"),
    ],
)
def test_a_day_is_where_the_tenant_is(time_zone: str, day: str) -> None:
    booked(ACME, datetime(2026, 3, 10, 18, 30, tzinfo=UTC))
    period = Period(date(2026, 3, 9), date(2026, 3, 12), time_zone)
    days = [line.key for line in selectors.by(ACME, period, "day") if line.sums.calls]
    assert days == [day]


def test_a_day_is_as_long_as_its_clock_makes_it() -> None:
    berlin = "Europe/Berlin"
    spring = day_start(date(2026, 3, 30), berlin) - day_start(date(2026, 3, 29), berlin)
    autumn = day_start(date(2026, 10, 26), berlin) - day_start(date(2026, 10, 25), berlin)
    assert (spring, autumn) == (timedelta(hours=23), timedelta(hours=25))
    # Beirut's clocks skip midnight: the day begins when they do.
    assert day_start(date(2026, 3, 29), "Asia/Beirut") == datetime(2026, 3, 28, 22, tzinfo=UTC)


def test_a_period_ends_with_its_last_moment() -> None:
    period = Period(date(2026, 3, 10), date(2026, 3, 10))
    booked(ACME, period.begins)
    booked(ACME, period.ends - timedelta(microseconds=1))
    booked(ACME, period.begins - timedelta(microseconds=1))
    booked(ACME, period.ends)
    assert selectors.totals(ACME, period).calls == 2
    assert len(list(selectors.rows(ACME, period))) == 2


def test_a_period_that_ends_before_it_begins_is_empty() -> None:
    booked(ACME)
    backwards = Period(date(2026, 3, 20), date(2026, 3, 1))
    assert selectors.totals(ACME, backwards) == selectors.Sums()
    assert selectors.by(ACME, backwards, "day") == []
    assert selectors.cache_days(ACME, backwards) == []


def test_caches_count_each_result_with_its_reason() -> None:
    for cache, count in {"hit": 4, "semantic": 1, "shared": 2, "miss": 3, "error": 2}.items():
        for _ in range(count):
            booked(ACME, cache=cache, saved_micros=10 if cache in ("hit", "semantic") else 0)
    booked(ACME, cache="bypassed", cache_reason="opted_out")
    booked(ACME, cache="bypassed", cache_reason="history")
    booked(ACME, cache="bypassed", cache_reason="history")
    booked(ACME, hop="embed", cache="hit", saved_ms=12.5)
    booked(ACME, hop="embed")
    response, question = selectors.caches(ACME, MARCH)
    assert (response.hits, response.semantic, response.shared) == (4, 1, 2)
    assert (response.misses, response.errors, response.eligible) == (3, 2, 12)
    assert response.bypassed == {"opted_out": 1, "history": 2}
    assert response.hit_ratio == pytest.approx(7 / 12)
    assert response.saved_micros == 50
    assert (question.hits, question.eligible, question.saved_ms) == (1, 1, 12.5)


def test_the_response_cache_day_by_day() -> None:
    booked(ACME, cache="hit")
    booked(ACME, NOON + timedelta(days=1), cache="miss")
    booked(ACME, hop="embed", cache="hit")
    days = selectors.cache_days(ACME, Period(date(2026, 3, 10), date(2026, 3, 12)))
    assert [(day.day, line.hits, line.misses) for day, line in days] == [
        (10, 1, 0),
        (11, 0, 1),
        (12, 0, 0),
    ]


def test_cost_per_answer_and_per_conversation() -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    booked(ACME, conversation_id=first, cost_micros=100)
    booked(ACME, conversation_id=first, cost_micros=200, hop="rewrite")
    booked(ACME, NOON + timedelta(days=1), conversation_id=first, cost_micros=300)
    booked(ACME, conversation_id=second, cost_micros=400)
    booked(ACME, cost_micros=1000, source="api")
    assert selectors.per_unit(ACME, MARCH) == selectors.PerUnit(
        answers=4,
        micros_per_answer=500.0,
        conversations=2,
        micros_per_conversation=500.0,
    )


def test_the_dearest_calls_come_first() -> None:
    for cost in (5, 30, 20, 10):
        booked(ACME, cost_micros=cost)
    booked(ACME, NOON - timedelta(days=60), cost_micros=10**6)
    found = selectors.dearest(ACME, MARCH, limit=3)
    assert [row.cost_micros for row in found] == [30, 20, 10]


@pytest.mark.parametrize("time_zone", ["UTC", "Asia/Tokyo", "Pacific/Pago_Pago"])
def test_the_dearest_are_those_of_the_days_where_the_tenant_is(time_zone: str) -> None:
    rows = many(ACME, 200)
    period = Period(date(2026, 3, 11), date(2026, 3, 12), time_zone)
    within = [row for row in rows if period.begins <= row.at < period.ends]
    costs = sorted((row.cost_micros for row in within), reverse=True)
    found = selectors.dearest(ACME, period, limit=10)
    assert [row.cost_micros for row in found] == costs[:10]
    assert selectors.dearest(None, period, limit=10) == found


def test_rows_come_as_they_were_booked_over_several_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = many(ACME, 100)
    monkeypatch.setattr(selectors, "_PAGE", 30)
    assert [row.id for row in selectors.rows(ACME, MARCH)] == sorted(row.id for row in rows)


def test_the_month_is_projected_at_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 4, 11, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: now)
    booked(ACME, datetime(2026, 3, 20, tzinfo=UTC), cost_micros=7)
    booked(ACME, datetime(2026, 4, 2, tzinfo=UTC), cost_micros=1000)
    assert selectors.projection(ACME, "UTC") == selectors.Projection(1000, 3000, 10.0, 30)


def test_the_pace_of_a_new_tenant_is_since_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 4, 21, tzinfo=UTC))
    booked(ACME, datetime(2026, 4, 16, tzinfo=UTC), cost_micros=1000)
    assert selectors.projection(ACME, "UTC") == selectors.Projection(1000, 3000, 5.0, 30)


@pytest.mark.parametrize("booked_before", [False, True])
def test_the_first_hours_project_nothing(
    monkeypatch: pytest.MonkeyPatch, booked_before: bool
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 4, 1, 5, tzinfo=UTC))
    if booked_before:
        booked(ACME, datetime(2026, 4, 1, 1, tzinfo=UTC))
    assert selectors.projection(ACME, "UTC").projected_micros is None


def test_a_month_is_where_the_tenant_is() -> None:
    late = datetime(2026, 2, 28, 20, tzinfo=UTC)
    assert month_of(late, "Asia/Tokyo") == Period(date(2026, 3, 1), date(2026, 3, 31), "Asia/Tokyo")
    assert month_of(late, "UTC").last == date(2026, 2, 28)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE gateway_ledgerentry SET cost_micros = 0",
        "DELETE FROM gateway_ledgerentry",
        "UPDATE gateway_ledgerentry SET cost_micros = 0 WHERE id = -1",
    ],
)
def test_the_ledger_is_only_added_to(statement: str) -> None:
    booked(ACME)
    with pytest.raises(DatabaseError, match="only ever added to"), transaction.atomic():
        connection.cursor().execute(statement)
    assert selectors.totals(ACME, MARCH).cost_micros == 250


@pytest.mark.django_db(transaction=True)
def test_the_sites_role_may_not_empty_the_ledger() -> None:
    """The tests' own clean-up may, by a grant of theirs: taken back here for a moment."""
    booked(ACME)
    role = connection.settings_dict["USER"]
    url = parts.postgres.url(SUPERUSER, parts.DATABASE)
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(f"REVOKE TRUNCATE ON gateway_ledgerentry FROM {role}")
        try:
            with pytest.raises(DatabaseError, match="permission denied"):
                connection.cursor().execute("TRUNCATE gateway_ledgerentry")
        finally:
            superuser.execute(f"GRANT TRUNCATE ON gateway_ledgerentry TO {role}")
    assert selectors.totals(ACME, MARCH).calls == 1


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE gateway_ledgerentry DISABLE TRIGGER append_only",
        "DROP TRIGGER append_only ON gateway_ledgerentry",
        "DROP TABLE gateway_ledgerentry",
    ],
)
def test_the_sites_role_may_not_lift_that(statement: str) -> None:
    with pytest.raises(DatabaseError, match="must be owner"), transaction.atomic():
        connection.cursor().execute(statement)


def test_the_ledger_takes_no_negative_figures() -> None:
    for column in ("prompt_tokens", "cost_micros", "saved_micros"):
        with pytest.raises(DatabaseError), transaction.atomic():
            booked(ACME, **{column: -1})
