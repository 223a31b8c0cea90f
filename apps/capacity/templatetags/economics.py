"""How exact sums, shares and counts are said on pages of costs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import template

from apps.capacity.economics import words
from apps.capacity.economics.costing import Range
from apps.capacity.economics.selectors import OLD_DAYS, age_days

register = template.Library()


@register.filter
def money(micros: Fraction | int | None) -> str:
    """ "$0.583", or a dash."""
    return words.money(micros)


@register.filter
def tokens(count: Fraction | int | None) -> str:
    """ "1.25 million", or a dash."""
    return words.tokens(count)


@register.filter
def rounded(value: Any) -> str:
    """Three significant digits, or a dash."""
    return words.rounded(Fraction(value) if isinstance(value, Decimal) else value)


@register.filter
def percent(share: Fraction | None) -> str:
    """ "40 %", or a dash."""
    return words.percent(share)


@register.filter
def as_ms(seconds: Fraction) -> str:
    """ "1.31 ms"."""
    return f"{words.rounded(seconds * 1000)} ms"


@register.filter
def percent_value(share: Fraction) -> str:
    """The number alone, for a form: "40"."""
    return f"{float(100 * share):g}"


@register.filter
def times(share: Fraction | None) -> str:
    """ "2.4 times", or a dash."""
    return "–" if share is None else f"{words.rounded(share)} times"


@register.filter
def spread(of: Range | None) -> str:
    """ "$0.51 to $0.66"; "" where the knee has no interval."""
    if of is None or of.low is None or of.high is None:
        return ""
    return f"{words.money(of.low)} to {words.money(of.high)}"


@register.filter
def age(as_of: date, today: date) -> int | None:
    """Days, where a list figure is old enough to be said so."""
    days = age_days(as_of, today)
    return days if days > OLD_DAYS else None
