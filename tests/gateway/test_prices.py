"""Prices: dated, exact to the micro, and never able to change what was booked."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from pytest_django import Settings

from apps.gateway.calling import catalogue
from apps.gateway.ledger import selectors
from apps.gateway.ledger.booking import book
from apps.gateway.ledger.prices import (
    MOST_CALL_MICROS,
    PriceRule,
    cost_micros,
    price_in_force,
    price_rule,
    worst_micros,
)
from apps.gateway.ledger.pricing import PerHour, PerTokens, PriceRefused, set_price
from apps.gateway.models import LedgerEntry, Price
from apps.gateway.types import Call, Caller, Model, Route, Source, Upstream, Usage

MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


def rule(
    paid: int | Fraction = 150_000, written: int | Fraction = 600_000, **more: Any
) -> PriceRule:
    fields: dict[str, Any] = {
        "id": 1,
        "upstream": "alpha",
        "upstream_model": "",
        "valid_from": MARCH,
        "cached_input_micros_per_mtok": paid,
        **more,
    }
    return PriceRule(input_micros_per_mtok=paid, output_micros_per_mtok=written, **fields)


@pytest.mark.parametrize(
    ("usage", "price", "micros"),
    [
        (Usage(1_000_000, 0, 0), rule(), 150_000),
        (Usage(0, 0, 1_000_000), rule(), 600_000),
        (Usage(1, 0, 0), rule(), 1),  # 0.15 of a micro
        (Usage(), rule(), 0),
        (Usage(100, 0, 10), None, 0),
        # 0.5 and 0.5: rounded once, over the whole call.
        (Usage(5, 0, 5), rule(100_000, 100_000), 1),
        (Usage(5, 0, 6), rule(100_000, 100_000), 2),
        (Usage(1000, 400, 0), rule(1_000_000, 0, cached_input_micros_per_mtok=100_000), 640),
        # More cached than read cannot be: all of it was.
        (Usage(10, 50, 0), rule(1_000_000, 0, cached_input_micros_per_mtok=0), 0),
        (Usage(-5, -5, -5), rule(), 0),
    ],
)
def test_a_call_costs_its_tokens_rounded_up_once(
    usage: Usage, price: PriceRule | None, micros: int
) -> None:
    assert cost_micros(usage, price) == micros


def test_no_micro_is_lost_to_floats() -> None:
    # As floats: 9007199254740993 micros would be 9007199254740992.
    assert cost_micros(Usage(3, 0, 0), rule(paid=10**14 + 1)) == 3 * 10**8 + 1
    third = rule(paid=Fraction(10**6, 3))
    assert cost_micros(Usage(3, 0, 0), third) == 1
    assert cost_micros(Usage(3 * 10**9, 0, 0), third) == 10**9
    assert cost_micros(Usage(3 * 10**9 + 1, 0, 0), third) == 10**9 + 1


def test_a_machine_by_the_hour_costs_what_its_throughput_says() -> None:
    row = Price(
        id=1,
        upstream="tgi",
        valid_from=MARCH,
        hour_micros=2_950_000,
        input_tokens_per_s=8000.1,
        output_tokens_per_s=1000.0,
    )
    price = price_rule(row)
    # An hour of reading and an hour of writing.
    assert cost_micros(Usage(80001 * 360, 0, 0), price) == 2_950_000
    assert cost_micros(Usage(0, 0, 3_600_000), price) == 2_950_000
    assert price.cached_input_micros_per_mtok == price.input_micros_per_mtok


def test_the_price_of_a_call_is_bounded() -> None:
    absurd = rule(paid=2**63 - 1, written=2**63 - 1)
    assert cost_micros(Usage(10**12, 0, 10**12), absurd) == MOST_CALL_MICROS


@pytest.mark.parametrize(
    ("at", "model", "expected"),
    [
        (MARCH - MOMENT, "small", None),
        (MARCH, "small", 1),
        (APRIL - MOMENT, "small", 1),
        (APRIL, "small", 2),
        (APRIL, "large", 3),  # of the model itself, though older
        (MARCH, "large", 3),
    ],
)
def test_the_price_in_force_is_the_latest_that_has_begun(
    at: datetime, model: str, expected: int | None
) -> None:
    prices = [
        rule(id=2, valid_from=APRIL),
        rule(id=1),
        rule(id=3, upstream_model="large"),
        rule(id=4, upstream="beta"),
        rule(id=5, upstream_model="huge"),
    ]
    found = price_in_force(prices, "alpha", model, at)
    assert (found.id if found else None) == expected


def test_the_worst_case_is_at_the_dearest_upstream() -> None:
    upstreams = [Upstream(name, "openai", "http://x") for name in ("alpha", "beta", "free")]
    routes = tuple(Route(upstream, "m") for upstream in upstreams)
    model = Model("m", "M", 8192, 1024, 8, "instruct", routes=routes)
    prices = [rule(10**6, 10**6), rule(2 * 10**6, 0, upstream="beta")]
    assert worst_micros(model, prices, 100, 50, MARCH) == 200
    assert worst_micros(model, prices, 100, 50, MARCH - MOMENT) == 0


def caller() -> Caller:
    return Caller(uuid.UUID(int=1), "UTC", Source.API)


def booked(at: datetime, tokens: int) -> int:
    """Book a call as it would be at that moment; its price's id."""
    call = Call("generate", "m", upstream="alpha", usage=Usage(tokens, 0, 0))
    prices = [price_rule(row) for row in Price.objects.all()]
    price = price_in_force(prices, "alpha", "", at)
    book(caller(), uuid.uuid4(), call, price)
    return price.id if price else 0


def per_tokens(paid: str, valid_from: datetime) -> Price:
    return set_price(
        upstream="alpha",
        upstream_model="",
        rate=PerTokens(Decimal(paid), Decimal("0")),
        valid_from=valid_from,
    )


@pytest.mark.django_db
def test_a_price_that_changes_in_the_middle_of_a_month_splits_it() -> None:
    middle = datetime(2026, 3, 15, 9, 30, tzinfo=UTC)
    first, second = per_tokens("1", MARCH), per_tokens("3", middle)
    assert booked(middle - MOMENT, 1000) == first.id
    assert booked(middle, 1000) == second.id
    assert sum(row.cost_micros for row in LedgerEntry.objects.all()) == 4000


@pytest.mark.django_db
def test_a_price_entered_later_does_not_change_what_was_booked() -> None:
    booked(APRIL, 1000)
    today = datetime.now(UTC).date()
    period = selectors.Period(today - timedelta(days=1), today + timedelta(days=1))
    assert selectors.totals(caller().tenant_id, period).unpriced_calls == 1
    per_tokens("1", MARCH)
    sums = selectors.totals(caller().tenant_id, period)
    assert (sums.cost_micros, sums.unpriced_calls) == (0, 1)
    booked(APRIL, 1000)
    sums = selectors.totals(caller().tenant_id, period)
    assert (sums.cost_micros, sums.unpriced_calls) == (1000, 1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "rate",
    [
        PerTokens(Decimal("-0.01"), Decimal(1)),
        PerTokens(Decimal("NaN"), Decimal(1)),
        PerTokens(Decimal("Infinity"), Decimal(1)),
        PerTokens(Decimal("1e7"), Decimal(1)),
        PerTokens(Decimal("0.0000001"), Decimal(1)),
        PerTokens(Decimal(1), Decimal(1), Decimal(-1)),
        PerHour(Decimal(1), 0.0, 1.0),
        PerHour(Decimal(1), 1.0, float("nan")),
        PerHour(Decimal(1), -1.0, 1.0),
        PerHour(Decimal(1), float("inf"), 1.0),
        PerHour(Decimal(-1), 1.0, 1.0),
    ],
)
def test_absurd_prices_are_refused(rate: PerTokens | PerHour) -> None:
    with pytest.raises(PriceRefused):
        set_price(upstream="alpha", upstream_model="", rate=rate, valid_from=MARCH)
    assert not Price.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fields",
    [
        {"input_micros_per_mtok": -1},
        {"cached_input_micros_per_mtok": -1},
        {"hour_micros": 1},
        {"hour_micros": 1, "input_tokens_per_s": 0.0, "output_tokens_per_s": 1.0},
        {"input_tokens_per_s": 1.0},
    ],
)
def test_the_database_keeps_no_price_that_means_nothing(fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Price.objects.create(upstream="alpha", valid_from=MARCH, **fields)


@pytest.mark.django_db
def test_a_second_price_from_the_same_moment_is_refused() -> None:
    per_tokens("1", MARCH)
    with pytest.raises(PriceRefused, match="already"):
        per_tokens("2", MARCH)
    assert Price.objects.get().input_micros_per_mtok == 1_000_000


@pytest.fixture
def _upstreams(settings: Settings) -> None:
    settings.TGI_URL, settings.OPENAI_URL = "http://127.0.0.1:9", ""
    catalogue.forget()


def price(*words: str) -> str:
    out = StringIO()
    call_command("price", *words, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
@pytest.mark.usefixtures("_upstreams")
def test_the_command_sets_and_lists_prices() -> None:
    assert "No prices" in price("list")
    price("set", "tgi", "--input", "0.15", "--output", "0.6", "--cached", "0.075",
          "--from", "2026-01-01", "--note", "price list")  # fmt: skip
    price("set", "tgi", "--hour", "2.95", "--input-tps", "8000", "--output-tps", "1000")
    listed, hourly = Price.objects.order_by("id")
    assert (listed.input_micros_per_mtok, listed.output_micros_per_mtok) == (150_000, 600_000)
    assert listed.cached_input_micros_per_mtok == 75_000
    assert listed.valid_from == datetime(2026, 1, 1, tzinfo=UTC)
    assert hourly.hour_micros == 2_950_000
    first, second = price("list").splitlines()
    assert first.startswith("  tgi (any model): 0.15 in, cached 0.075, 0.6 out USD")
    assert first.endswith("(price list)")
    assert second.startswith("* tgi (any model): 2.95 USD an hour")
    assert date.today().isoformat()[:4] in second  # noqa: DTZ011 - a year


@pytest.mark.django_db
@pytest.mark.usefixtures("_upstreams")
@pytest.mark.parametrize(
    "words",
    [
        ("set", "nowhere", "--input", "1", "--output", "1"),
        ("set", "tgi"),
        ("set", "tgi", "--input", "1"),
        ("set", "tgi", "--input", "1", "--output", "x"),
        ("set", "tgi", "--input", "1", "--output", "-1"),
        ("set", "tgi", "--input", "1", "--output", "1", "--hour", "1"),
        ("set", "tgi", "--hour", "1", "--input-tps", "1"),
        ("set", "tgi", "--hour", "1", "--input-tps", "nan", "--output-tps", "1"),
        ("set", "tgi", "--input", "1", "--output", "1", "--from", "yesterday"),
        ("set", "tgi", "--input", "1", "--output", "1", "--from", "2026-02-30"),
    ],
)
def test_the_command_refuses_what_means_nothing(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        price(*words)
    assert not Price.objects.exists()
