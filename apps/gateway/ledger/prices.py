"""What tokens cost, at the price in force then. Integer micros; a fraction counts as one.

Exact: prices are whole numbers or fractions, never floats, and a call is rounded once, as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from apps.gateway.models import Price
from apps.gateway.types import Model, Usage

_MTOK = 1_000_000
_HOUR_S = 3600
# No call costs more: sums of it stay far below what a bigint holds, however absurd a price is or
# the number of tokens that an upstream says it has used.
MOST_CALL_MICROS = 10**15


@dataclass(frozen=True)
class PriceRule:
    """A dated price. `upstream_model` "": of any model there."""

    id: int
    upstream: str
    upstream_model: str
    valid_from: datetime
    input_micros_per_mtok: int | Fraction
    cached_input_micros_per_mtok: int | Fraction
    output_micros_per_mtok: int | Fraction


def price_rule(row: Price) -> PriceRule:
    """By the hour: what a million tokens take of it at the measured throughput."""
    paid: int | Fraction = row.input_micros_per_mtok
    written: int | Fraction = row.output_micros_per_mtok
    if row.hour_micros is not None:
        paid = _by_the_hour(row.hour_micros, row.input_tokens_per_s)
        written = _by_the_hour(row.hour_micros, row.output_tokens_per_s)
    cached = row.cached_input_micros_per_mtok
    return PriceRule(
        id=row.id,
        upstream=row.upstream,
        upstream_model=row.upstream_model,
        valid_from=row.valid_from,
        input_micros_per_mtok=paid,
        cached_input_micros_per_mtok=paid if cached is None else cached,
        output_micros_per_mtok=written,
    )


def price_in_force(
    prices: Iterable[PriceRule], upstream: str, upstream_model: str, at: datetime
) -> PriceRule | None:
    """The latest price that had begun at `at`; one of the model itself before one of any."""
    begun = [
        price
        for price in prices
        if price.upstream == upstream
        and price.upstream_model in ("", upstream_model)
        and price.valid_from <= at
    ]
    return max(
        begun, key=lambda price: (price.upstream_model != "", price.valid_from), default=None
    )


def cost_micros(usage: Usage, price: PriceRule | None) -> int:
    """What a call cost, rounded up; nothing without a price."""
    if price is None:
        return 0
    prompt, output = max(0, usage.prompt_tokens), max(0, usage.output_tokens)
    cached = min(max(0, usage.cached_tokens), prompt)
    exact = (
        (prompt - cached) * price.input_micros_per_mtok
        + cached * price.cached_input_micros_per_mtok
        + output * price.output_micros_per_mtok
    )
    return min(int(-(-exact // _MTOK)), MOST_CALL_MICROS)


def worst_micros(
    model: Model, prices: Iterable[PriceRule], prompt_tokens: int, output_tokens: int, at: datetime
) -> int:
    """The most that a call may cost, at the dearest of the model's upstreams."""
    rules = tuple(prices)
    usage = Usage(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return max(
        (
            cost_micros(usage, price_in_force(rules, route.upstream.name, route.model, at))
            for route in model.routes
        ),
        default=0,
    )


def _by_the_hour(hour_micros: int, tokens_per_s: float | None) -> int | Fraction:
    """Micros a million tokens. The throughput is taken as it was written, not as its float."""
    if not tokens_per_s:
        raise ValueError("a price by the hour needs its throughput")
    per_token = Fraction(hour_micros, _HOUR_S) / Fraction(str(tokens_per_s))
    exact = per_token * _MTOK
    return exact.numerator if exact.denominator == 1 else exact
