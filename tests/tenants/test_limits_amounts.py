"""Amounts of limits as people write and read them."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from apps.tenants.amounts import MOST, amount_as_typed, format_amount, parse_amount
from apps.tenants.errors import LimitRefused
from apps.tenants.models import Measure

MONEY, TOKENS, STORAGE = Measure.MICROS_PER_MONTH, Measure.TOKENS_PER_DAY, Measure.STORAGE_BYTES


@pytest.mark.parametrize(
    ("measure", "text", "amount"),
    [
        (TOKENS, "1000000", 1_000_000),
        (TOKENS, "1,000,000", 1_000_000),
        (TOKENS, "1 000 000", 1_000_000),
        (TOKENS, "1\u202f000\u00a0000", 1_000_000),
        (TOKENS, "1'000'000", 1_000_000),
        (TOKENS, "1_000_000", 1_000_000),
        (TOKENS, "  25 ", 25),
        (TOKENS, "0", 0),
        (TOKENS, "5.0", 5),
        (MONEY, "12.50", 12_500_000),
        (MONEY, "0.000001", 1),
        (MONEY, "1,250 USD", 1_250_000_000),
        (STORAGE, "10 GB", 10 * 2**30),
        (STORAGE, "1.5gb", 3 * 2**29),
        (STORAGE, "500MB", 500 * 2**20),
        (STORAGE, "0.1 GB", 107374182),
    ],
)
def test_what_people_write_is_read(measure: Measure, text: str, amount: int) -> None:
    assert parse_amount(measure, text) == amount


HOSTILE = (
    "",
    " ",
    "-1",
    "+1",
    "NaN",
    "inf",
    "1e400",
    "1e3",
    "１２３",
    "١٢٣",
    "10²",
    "½",
    "0x10",
    "1,5",
    "1.",
    ".5",
    "1,00,000",
    "1,000,00",
    "1.2.3",
    "12 apples",
    "1\x000",
    "9" * 5000,
    "=1+1",
    "1;2",
    "1\n2",
    "1 000 00",
)


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_no_amount_is_refused_in_words(measure: Measure, text: str) -> None:
    with pytest.raises(LimitRefused, match=r"Write a|Say MB"):
        parse_amount(measure, text)


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (TOKENS, "1.5"),
        (MONEY, "0.0000001"),
        (MONEY, "5 EUR"),
        (STORAGE, "10"),
        (STORAGE, "5 PB"),
        (TOKENS, "5 GB"),
    ],
)
def test_parts_and_units_that_a_measure_lacks_are_refused(measure: Measure, text: str) -> None:
    with pytest.raises(LimitRefused):
        parse_amount(measure, text)


@pytest.mark.parametrize("measure", list(Measure))
def test_more_than_a_limit_can_be_is_refused(measure: Measure) -> None:
    assert parse_amount(measure, amount_as_typed(measure, MOST[measure])) == MOST[measure]
    with pytest.raises(LimitRefused, match="more than a limit can be"):
        parse_amount(measure, amount_as_typed(measure, MOST[measure] + 1))


@pytest.mark.parametrize("measure", list(Measure))
@pytest.mark.parametrize("amount", [0, 1, 999, 1000, 1023, 1024, 1025, 12345])
def test_what_is_offered_for_change_is_read_as_the_same(measure: Measure, amount: int) -> None:
    assert parse_amount(measure, amount_as_typed(measure, amount)) == amount


@pytest.mark.parametrize(
    ("measure", "amount", "words"),
    [
        (MONEY, 12_500_000, "12.50 EUR"),
        (MONEY, 1_234_567_891, "1,234.567891 EUR"),
        (MONEY, 0, "0.00 EUR"),
        (TOKENS, 1, "1 token"),
        (TOKENS, 1_000_000, "1,000,000 tokens"),
        (STORAGE, 10 * 2**30, "10 GB"),
        (STORAGE, 1536, "1.5 KB"),
        (STORAGE, 1, "1 byte"),
        (Measure.DOCUMENTS, 2500, "2,500 documents"),
    ],
)
def test_amounts_are_shown_with_their_unit(
    settings: Settings, measure: Measure, amount: int, words: str
) -> None:
    settings.CURRENCY = "EUR"
    assert format_amount(measure, amount) == words
