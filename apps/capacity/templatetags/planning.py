"""How a computed figure is said on pages."""

from __future__ import annotations

import math

from django import template

from apps.capacity.arithmetic.derived import Derived, figure, quantity
from apps.tenants.money import format_money

register = template.Library()

_NO_BREAK = "\N{NO-BREAK SPACE}"
_SECOND_MS = 1000


@register.filter
def shown(derived: Derived | None) -> str:
    """The figure with its unit, in three digits: a bound deserves no more. A dash for None.

    The exact one is in its formula. "at most 208 tokens/s", "26.8 s", "$1,234.50 a month".
    """
    if derived is None:
        return "–"
    return f"{derived.bound} {_plain(derived.value, derived.unit)}".strip()


@register.filter
def shown_value(derived: Derived | None) -> str:
    """The same without "at most" or "at least", for columns whose head says so."""
    return "–" if derived is None else _plain(derived.value, derived.unit)


def _plain(value: float, unit: str) -> str:
    if unit.startswith("micros"):
        return f"{format_money(value)}{unit.removeprefix('micros')}"
    if unit == "%":
        return f"{figure(_rounded(value))}{_NO_BREAK}%"
    if unit == "ms" and value >= _SECOND_MS:
        return f"{figure(_rounded(value / _SECOND_MS))}{_NO_BREAK}s"
    if unit == "bytes":
        return quantity(_rounded(value), unit)
    return f"{figure(value if value == int(value) else _rounded(value))} {unit}".rstrip()


def _rounded(value: float) -> float:
    """To three digits that count."""
    if not value or not math.isfinite(value):
        return value
    rounded = round(value, 2 - math.floor(math.log10(abs(value))))
    return float(rounded)
