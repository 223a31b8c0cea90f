"""From the price of an hour to the price of a token, exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from apps.capacity.errors import PlanInvalid
from apps.capacity.planning.inputs import HOURS_A_MONTH as HOURS_A_MONTH

Number = int | float | Fraction | Decimal

MTOK = 1_000_000
HOUR_S = 3600
MONTH_S = HOURS_A_MONTH * HOUR_S


def exact(value: Number, what: str = "A figure") -> Fraction:
    """The number as it is written: 0.1 is a tenth. Raises PlanInvalid where it is none."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PlanInvalid(f"{what} is to be a finite number.")
        return Fraction(repr(float(value)))  # NumPy's floats write themselves with their type
    if isinstance(value, Decimal) and not value.is_finite():
        raise PlanInvalid(f"{what} is to be a finite number.")
    return Fraction(value)


def positive(value: Number, what: str) -> Fraction:
    """`exact`, above 0."""
    found = exact(value, what)
    if found <= 0:
        raise PlanInvalid(f"{what} is to be above 0.")
    return found


def not_negative(value: Number, what: str) -> Fraction:
    """`exact`, 0 or above."""
    found = exact(value, what)
    if found < 0:
        raise PlanInvalid(f"{what} is to be 0 or above.")
    return found


def cost_per_mtok(hour_micros: Number, tokens_per_s: Number, utilisation: Number = 1) -> Fraction:
    """Micros of a million tokens: hour ÷ (3,600 s × tokens a second × utilisation) × 1,000,000.

    `utilisation` is the share of what the machine can make in an hour that is asked of it, above
    0; the hour is paid for all the same. Raises PlanInvalid.
    """
    hour = not_negative(hour_micros, "The price of an hour")
    made = positive(tokens_per_s, "Tokens a second") * positive(utilisation, "The utilisation")
    return hour * MTOK / (HOUR_S * made)


def tokens_a_month(tokens_per_s: Number, utilisation: Number = 1) -> Fraction:
    """What a machine makes in 730 hours."""
    made = positive(tokens_per_s, "Tokens a second") * positive(utilisation, "The utilisation")
    return made * MONTH_S


def month_micros(hour_micros: Number) -> Fraction:
    """What 730 hours cost (365 × 24 ÷ 12)."""
    return not_negative(hour_micros, "The price of an hour") * HOURS_A_MONTH
