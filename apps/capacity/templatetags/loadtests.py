"""How figures of load tests are said on pages."""

from __future__ import annotations

import math
from typing import Any

from django import template

from apps.capacity.showing.words import figure as figure_words
from apps.capacity.showing.words import load_words
from apps.capacity.showing.words import milliseconds as milliseconds_words

register = template.Library()

_PERCENT = "\N{NO-BREAK SPACE}%"
_TINY = 0.001


@register.filter
def ms(value: Any) -> str:
    """ "12.3 ms", "1.24 s", or a dash."""
    return milliseconds_words(max(value, 0.0)) if _is_number(value) else "–"


@register.filter
def seconds(value: Any) -> str:
    """ "12.3 s" in milliseconds where it is shorter than one, or a dash."""
    return milliseconds_words(1000 * max(value, 0.0)) if _is_number(value) else "–"


@register.filter
def fig(value: Any) -> str:
    """Three significant digits, or a dash."""
    return figure_words(value) if _is_number(value) else "–"


@register.filter
def at_least_0(value: Any) -> Any:
    """The lower end of an interval of what cannot be negative."""
    return max(value, 0.0) if _is_number(value) else value


@register.filter
def share(value: Any) -> str:
    """ "95.3 %", "< 0.1 %", "100 %" only of all of it, or a dash."""
    if not _is_number(value):
        return "–"
    if 0 < value < _TINY:
        return f"< 0.1{_PERCENT}"
    if 1 - _TINY < value < 1:
        return f"> 99.9{_PERCENT}"
    return f"{100 * value:.1f}".removesuffix(".0") + _PERCENT


@register.filter
def at_load(value: Any, arrivals: str) -> str:
    """ "2.6 requests a second"."""
    return load_words(value, arrivals) if _is_number(value) else "–"


@register.filter
def item(of: Any, name: str) -> Any:
    """A value of a dict by its name; None where it has none."""
    return of.get(name) if isinstance(of, dict) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
