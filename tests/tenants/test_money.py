"""Sums of money are written with as many digits as they need, and never as nothing."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from apps.tenants.money import exact_amount, format_money


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (0, "$0.00"),
        (1, "$0.000001"),
        (12, "$0.000012"),
        (1_234, "$0.00123"),
        (9_999, "$0.01"),
        (12_345, "$0.0123"),
        (100_000, "$0.10"),
        (999_400, "$0.999"),
        (999_600, "$1.00"),
        (1_005_000, "$1.01"),
        (1_234_567_890_123, "$1,234,567.89"),
        (2**63 - 1, "$9,223,372,036,854.78"),
        (12.3456, "$0.000012"),
        (0.4, "< $0.000001"),
        (-1_500_000, "−$1.50"),
    ],
)
def test_a_sum_has_the_digits_it_needs(micros: float, words: str) -> None:
    assert format_money(micros, "USD") == words


@pytest.mark.parametrize(
    ("currency", "words"),
    [
        ("EUR", "€12.35"),
        ("JPY", "¥12"),
        ("KWD", "KWD\N{NO-BREAK SPACE}12.346"),
        ("CHF", "CHF\N{NO-BREAK SPACE}12.35"),
    ],
)
def test_a_currency_has_its_sign_and_decimals(currency: str, words: str) -> None:
    assert format_money(12_345_678, currency) == words


def test_the_sites_currency_is_used(settings: Settings) -> None:
    settings.CURRENCY = "GBP"
    assert format_money(2_500_000) == "£2.50"


def test_programs_get_every_digit() -> None:
    assert [exact_amount(micros) for micros in (0, 1, 12_345_678, 2**63 - 1)] == [
        *("0.000000", "0.000001", "12.345678", "9223372036854.775807"),
    ]
