"""How exact figures are said: rounded once, at the end."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from apps.capacity.showing.words import figure
from apps.tenants.money import format_money

_SIZES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"))
_MOST_MICROS = 10**24  # more than there is of any money; decimals end at 28 digits
_LEAST = 1e-4  # below it, powers of ten are shorter than zeros
_PERCENT = "\N{NO-BREAK SPACE}%"


def money(micros: Fraction | int | None) -> str:
    """ "$0.583", or a dash where there is no sum. Whole micros are never floats on the way."""
    if micros is None:
        return "–"
    exact = Fraction(micros)
    if exact > _MOST_MICROS:
        return f"over {format_money(_MOST_MICROS)}"
    return format_money(float(exact) if 0 < abs(exact) < 1 else round(exact))


def tokens(count: Fraction | int | None) -> str:
    """ "312,000", "1.25 million", "34 billion", or a dash."""
    if count is None:
        return "–"
    for size, name in _SIZES:
        if count >= size:
            return f"{rounded(Fraction(count) / size)} {name}"
    return f"{round(count):,}"


def rounded(value: Fraction | int | float | None) -> str:
    """Three significant digits, or a dash."""
    if value is None:
        return "–"
    number = float(value)
    return f"{number:.3g}" if 0 < abs(number) < _LEAST else figure(float(f"{number:.3g}"))


def percent(share: Fraction | float | None) -> str:
    """ "40 %", "3.2 %", "< 0.1 %", or a dash."""
    if share is None:
        return "–"
    if 0 < share < Fraction(1, 1000):
        return f"< 0.1{_PERCENT}"
    return f"{100 * float(share):,.{0 if share >= Fraction(1, 10) else 1}f}".removesuffix(".0") + (
        _PERCENT
    )


def day(moment: date) -> str:
    """ "1 December 2026"."""
    return f"{moment.day} {moment:%B} {moment.year}"
