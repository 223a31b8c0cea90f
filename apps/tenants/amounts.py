"""Amounts of limits as people write and read them.

Kept as whole numbers: micros of the site's currency, bytes, or a count. Written with the digits 0
to 9, thousands apart or not, and a point before decimals: digits of other scripts, which Python
would read too, are refused rather than guessed at.
"""

from __future__ import annotations

import re
from decimal import Decimal

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import ngettext

from apps.tenants.errors import LimitRefused
from apps.tenants.models import Measure

_MICROS = 1_000_000
_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_THOUSANDS = " ,_'’\u00a0\u202f"
_NUMBER = re.compile(
    rf"(?P<whole>[0-9]+|[0-9]{{1,3}}(?:[{_THOUSANDS}][0-9]{{3}})+)(?:\.(?P<part>[0-9]+))?"
    r"\s*(?P<unit>[A-Za-z]*)"
)
_TEXT_MAX_CHARS = 40
# The most that a limit may be: far above any use, and a thousandth of what a bigint holds.
MOST = {
    Measure.REQUESTS_PER_MINUTE: 10**6,
    Measure.TOKENS_PER_MINUTE: 10**10,
    Measure.CONCURRENT_CALLS: 10**5,
    Measure.TOKENS_PER_DAY: 10**12,
    Measure.MICROS_PER_MONTH: 10**15,
    Measure.DOCUMENTS: 10**9,
    Measure.STORAGE_BYTES: 2**53,
}


def parse_amount(measure: Measure, text: str) -> int:
    """`text` in the measure's own unit; raises LimitRefused, which says how to write it."""
    found = _NUMBER.fullmatch(text.strip()) if len(text) <= _TEXT_MAX_CHARS else None
    if found is None:
        raise LimitRefused(_how_to_write(measure))
    digits = re.sub(rf"[{_THOUSANDS}]", "", found["whole"])
    number = Decimal(f"{digits}.{found['part'] or '0'}")
    amount = number * _factor(measure, found["unit"].upper())
    if measure == Measure.STORAGE_BYTES:
        amount = amount.to_integral_value()
    if amount != amount.to_integral_value():
        raise LimitRefused(_how_to_write(measure))
    return check_amount(measure, int(amount))


def check_amount(measure: Measure, amount: int) -> int:
    """`amount`, if a limit may be that; raises LimitRefused."""
    if amount < 0:
        raise LimitRefused("A limit is 0 or more.")
    most = MOST[measure]
    if amount > most:
        raise LimitRefused(
            f"That is more than a limit can be: at most {format_amount(measure, most)}. "
            "Where there is to be no limit, remove it."
        )
    return amount


def format_amount(measure: Measure | str, amount: int) -> str:
    """`amount` with its unit, in the active language: "12.50 USD", "1.5 GB", "1,000,000 tokens"."""
    match Measure(measure):
        case Measure.MICROS_PER_MONTH:
            sum_ = Decimal(_decimals(Decimal(amount) / _MICROS).replace(",", ""))
            return f"{_number(sum_)} {settings.CURRENCY}"
        case Measure.STORAGE_BYTES:
            return _bytes(amount)
        case Measure.TOKENS_PER_DAY | Measure.TOKENS_PER_MINUTE:
            words = ngettext("%(count)s token", "%(count)s tokens", amount)
        case Measure.DOCUMENTS:
            words = ngettext("%(count)s document", "%(count)s documents", amount)
        case Measure.CONCURRENT_CALLS:
            words = ngettext("%(count)s answer", "%(count)s answers", amount)
        case Measure.REQUESTS_PER_MINUTE:
            words = ngettext("%(count)s request", "%(count)s requests", amount)
    return words % {"count": _number(amount)}


def amount_as_typed(measure: Measure | str, amount: int) -> str:
    """What `parse_amount` reads as exactly this amount."""
    match Measure(measure):
        case Measure.MICROS_PER_MONTH:
            return _decimals(Decimal(amount) / _MICROS)
        case Measure.STORAGE_BYTES:
            units = ("TB", "GB", "MB", "KB")
            unit = next((each for each in units if amount and amount % _UNITS[each] == 0), "B")
            return f"{amount // _UNITS[unit]} {unit}"
        case _:
            return str(amount)


def _factor(measure: Measure, unit: str) -> int:
    if measure == Measure.STORAGE_BYTES and unit in _UNITS:
        if unit:
            return _UNITS[unit]
        raise LimitRefused("Say MB, GB or TB after the number: 10 GB.")
    if measure == Measure.MICROS_PER_MONTH and unit in ("", settings.CURRENCY):
        return _MICROS
    if unit:
        raise LimitRefused(_how_to_write(measure))
    return 1


def _how_to_write(measure: Measure) -> str:
    if measure == Measure.MICROS_PER_MONTH:
        return (
            f"Write a sum in {settings.CURRENCY} with the digits 0 to 9, such as 250 or 1,250.50: "
            "at most six decimals, after a point."
        )
    if measure == Measure.STORAGE_BYTES:
        return "Write a size with the digits 0 to 9 and its unit, such as 500 MB or 1.5 GB."
    return "Write a whole number with the digits 0 to 9, such as 5000 or 1,000,000."


def _decimals(number: Decimal) -> str:
    """At least two decimals, and as many more as say something."""
    text = f"{number:,.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def _bytes(amount: int) -> str:
    if amount < _UNITS["KB"]:
        words = ngettext("%(count)s byte", "%(count)s bytes", amount)
        return words % {"count": _number(amount)}
    unit = next(each for each in ("TB", "GB", "MB", "KB") if amount >= _UNITS[each])
    rounded = f"{Decimal(amount) / _UNITS[unit]:.1f}"
    return f"{_number(Decimal(rounded.removesuffix('.0')))} {unit}"


def _number(number: Decimal | int) -> str:
    """With thousands apart and the decimal sign of the active language."""
    return str(number_format(number, force_grouping=True))
