"""How figures are said in sentences and on cards: in three digits, for a bound deserves no more.

The exact one is in its formula.
"""

from __future__ import annotations

import math

from apps.capacity.arithmetic.derived import Derived, figure
from apps.tenants.money import format_money

_NO_BREAK = "\N{NO-BREAK SPACE}"
_SECOND_MS = 1000
_BYTES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


def say(derived: Derived) -> str:
    """ "at most 208 tokens/s", "26.8 s", "$1,234.50 a month"."""
    return f"{derived.bound} {say_value(derived.value, derived.unit)}".strip()


def say_value(value: float, unit: str) -> str:
    """A figure with its unit; one of money is "micros" and what it is for."""
    if unit.startswith("micros"):
        return f"{format_money(value)}{unit.removeprefix('micros')}"
    if unit == "%":
        return f"{digits(value)}{_NO_BREAK}%"
    if unit == "ms":
        return say_ms(value)
    if unit == "bytes":
        return _bytes(value)
    return f"{figure(value) if value == int(value) else digits(value)} {unit}".rstrip()


def say_ms(value: float) -> str:
    """ "49.9 ms", "26.8 s"."""
    if value < _SECOND_MS:
        return f"{digits(value)}{_NO_BREAK}ms"
    return f"{digits(value / _SECOND_MS)}{_NO_BREAK}s"


def digits(value: float) -> str:
    """Three digits that count, and no zeros at the end: 6.11, 25.2, 1,530."""
    if not value or not math.isfinite(value):
        return figure(value)
    places = 2 - math.floor(math.log10(abs(value)))
    words = f"{round(value, places):,.{max(0, places)}f}"
    words = words.rstrip("0").rstrip(".") if "." in words else words
    return words.replace("-", "\N{MINUS SIGN}")


def _bytes(value: float) -> str:
    for size, name in _BYTES:
        if abs(value) >= size:
            return f"{digits(value / size)}{_NO_BREAK}{name}"
    return f"{figure(value)} bytes"
