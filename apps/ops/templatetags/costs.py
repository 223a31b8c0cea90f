"""How sums of money, shares and what was saved are said on pages."""

from __future__ import annotations

from typing import Any

from django import template

from apps.gateway.ledger.selectors import Sums
from apps.ops.costs import cost_words
from apps.tenants.money import format_money

register = template.Library()

_PERCENT = "\N{NO-BREAK SPACE}%"


@register.filter
def money(micros: float | None) -> str:
    """ "$0.0123", or a dash where there is no sum."""
    return "–" if micros is None else format_money(micros)


@register.filter
def cost(sums: Sums) -> str:
    """ "$0.0123", "at least $0.0123" or "not known"."""
    return cost_words(sums)


@register.filter
def unit_cost(micros: float | None, sums: Sums) -> str:
    """An average of `sums`, which says so where it is of a part only."""
    if micros is None:
        return "–"
    if not sums.unpriced_calls:
        return format_money(micros)
    return f"at least {format_money(micros)}" if micros else "not known"


@register.filter
def percent(share: Any) -> str:
    """ "12 %", "< 1 %", "100 %", or a dash where there is no share."""
    if share is None:
        return "–"
    if 0 < share < 0.01:
        return f"< 1{_PERCENT}"
    # What is not all of it does not become 100 by rounding.
    return f"> 99{_PERCENT}" if 0.99 < share < 1 else f"{100 * share:.0f}{_PERCENT}"


@register.filter
def times_100(share: float | None) -> float:
    """Percent of the width of a bar."""
    return round(100 * share, 2) if share else 0.0
