"""What tokens cost, at the price in force then. Integer micros; a fraction counts as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.gateway.types import Model, Usage

_MTOK = 1_000_000


@dataclass(frozen=True)
class PriceRule:
    """A dated price. `upstream_model` "": of any model there."""

    id: int
    upstream: str
    upstream_model: str
    valid_from: datetime
    input_micros_per_mtok: float
    cached_input_micros_per_mtok: float
    output_micros_per_mtok: float


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
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    exact = (
        (usage.prompt_tokens - cached) * price.input_micros_per_mtok
        + cached * price.cached_input_micros_per_mtok
        + usage.output_tokens * price.output_micros_per_mtok
    )
    return int(-(-exact // _MTOK))


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
