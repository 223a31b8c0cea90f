"""Setting prices. A price is added and never changed: what was booked at it points to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db import IntegrityError, transaction

from apps.gateway.models import Price

_MICROS = 1_000_000
# A million units of the currency, per million tokens or per hour.
MOST_UNITS = Decimal(1_000_000)
_MOST_TOKENS_PER_S = 1e9


class PriceRefused(ValueError):
    """A price that cannot be right. `str()` says why."""


@dataclass(frozen=True)
class PerTokens:
    """Units of the site's currency per million tokens, as on a provider's list."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None  # as input


@dataclass(frozen=True)
class PerHour:
    """Units of the currency per hour of all the upstream's GPUs, and its measured throughput."""

    hour: Decimal
    input_tokens_per_s: float
    output_tokens_per_s: float


def set_price(
    *,
    upstream: str,
    upstream_model: str,
    rate: PerTokens | PerHour,
    valid_from: datetime,
    note: str = "",
) -> Price:
    """A price from a moment on; raises PriceRefused.

    One that begins in the past is in force for calls from now on: what is booked stays as it is.
    """
    fields = _per_hour(rate) if isinstance(rate, PerHour) else _per_tokens(rate)
    try:
        with transaction.atomic():
            return Price.objects.create(
                upstream=upstream,
                upstream_model=upstream_model,
                valid_from=valid_from,
                note=note,
                **fields,
            )
    except IntegrityError as exc:
        raise PriceRefused(
            f"There is a price of {upstream} {upstream_model} from that moment already. Set "
            "another one from a later moment: prices are not changed."
        ) from exc


def micros(units: Decimal, what: str) -> int:
    """Units of the currency as micros; raises PriceRefused for what is none."""
    if not units.is_finite() or units < 0 or units > MOST_UNITS:
        raise PriceRefused(f"{what} is to be from 0 to {MOST_UNITS:,}.")
    exact = units * _MICROS
    if exact != exact.to_integral_value():
        raise PriceRefused(f"{what} has more than six decimals.")
    return int(exact)


def _per_tokens(rate: PerTokens) -> dict[str, int | None]:
    cached = rate.cached_input
    return {
        "input_micros_per_mtok": micros(rate.input, "The price of input"),
        "output_micros_per_mtok": micros(rate.output, "The price of output"),
        "cached_input_micros_per_mtok": (
            None if cached is None else micros(cached, "The price of cached input")
        ),
    }


def _per_hour(rate: PerHour) -> dict[str, int | float]:
    for what, value in (("input", rate.input_tokens_per_s), ("output", rate.output_tokens_per_s)):
        if not math.isfinite(value) or not 0 < value <= _MOST_TOKENS_PER_S:
            raise PriceRefused(f"The throughput of {what} is to be above 0 tokens a second.")
    return {
        "hour_micros": micros(rate.hour, "The price of an hour"),
        "input_tokens_per_s": rate.input_tokens_per_s,
        "output_tokens_per_s": rate.output_tokens_per_s,
    }
