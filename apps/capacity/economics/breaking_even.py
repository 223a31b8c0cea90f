"""From which volume on owning machines is cheaper than paying by the token.

A month costs
    by the token:  price × volume
    owned:         shared + machines × fixed + marginal × volume,
                   machines = volume ÷ what one makes in a month, rounded up

and so the owned cost climbs in steps. A fixed cost that all machines share (people, a contract)
may take several of them to be earned back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.economics.rates import MTOK, Number, not_negative, positive


def break_even_tokens(
    *,
    fixed_micros: Number,
    price_micros_per_mtok: Number,
    marginal_micros_per_mtok: Number = 0,
) -> Fraction | None:
    """Tokens a month at which both cost the same: fixed ÷ (price − marginal), in tokens.

    It says nothing of whether the machines can make so many: see `break_even`. None where the
    price is no higher than the marginal cost: no volume earns anything back. Raises PlanInvalid.
    """
    fixed = not_negative(fixed_micros, "The fixed cost")
    saved = not_negative(price_micros_per_mtok, "The price") - not_negative(
        marginal_micros_per_mtok, "The marginal cost"
    )
    return fixed * MTOK / saved if saved > 0 else None


@dataclass(frozen=True, slots=True)
class Ownership:
    """What machines of one's own cost a month, and what one of them makes."""

    machine_micros: Fraction  # a month of one
    capacity_tokens: Fraction  # a month of one, at the utilisation that is planned with
    shared_micros: Fraction = Fraction(0)  # a month, however many there are
    marginal_micros_per_mtok: Fraction = Fraction(0)

    def machines(self, tokens: Number) -> int:
        """As many as a volume takes; at least one, for it is there."""
        wanted = not_negative(tokens, "The volume")
        return max(1, math.ceil(wanted / positive(self.capacity_tokens, "What a machine makes")))

    def month_micros(self, tokens: Number) -> Fraction:
        """What a month with that volume costs."""
        marginal = not_negative(tokens, "The volume") * self.marginal_micros_per_mtok / MTOK
        return self.shared_micros + self.machines(tokens) * self.machine_micros + marginal

    @property
    def full_micros_per_mtok(self) -> Fraction:
        """A million tokens of a machine that makes all it can, without what is shared."""
        made = positive(self.capacity_tokens, "What a machine makes")
        return self.machine_micros * MTOK / made + self.marginal_micros_per_mtok


@dataclass(frozen=True, slots=True)
class BreakEven:
    """When owning wins.

    `one_tokens` is where one machine's cost would be met, were it large enough; `is_beyond_one`
    says that it is not. `tokens` and `machines` are the lowest volume at which owning wins, and
    what makes it; None: at no volume, for even a full machine's token costs
    `full_micros_per_mtok`. From `for_good_tokens` on it wins at every
    volume; between the two a new machine that is nearly idle may make it lose again for a while.
    """

    one_tokens: Fraction | None
    is_beyond_one: bool
    tokens: Fraction | None
    machines: int | None
    for_good_tokens: Fraction | None
    full_micros_per_mtok: Fraction

    @property
    def wins(self) -> bool:
        return self.tokens is not None


def break_even(own: Ownership, *, price_micros_per_mtok: Number) -> BreakEven:
    """The lowest volume at which owning costs no more than paying by the token.

    With n machines it is (shared + n × fixed) ÷ (price − marginal), if n machines make as much:
    n × (capacity × (price − marginal) − fixed) ≥ shared.
    """
    price = not_negative(price_micros_per_mtok, "The price")
    one = break_even_tokens(
        fixed_micros=own.shared_micros + own.machine_micros,
        price_micros_per_mtok=price,
        marginal_micros_per_mtok=own.marginal_micros_per_mtok,
    )
    beyond = one is None or one > own.capacity_tokens
    full = own.full_micros_per_mtok
    machines = _fewest(own, price)
    if machines is None:
        return BreakEven(one, beyond, None, None, None, full)
    saved = price - own.marginal_micros_per_mtok
    tokens = (own.shared_micros + machines * own.machine_micros) * MTOK / saved
    return BreakEven(one, beyond, tokens, machines, _for_good(own, price), full)


def _earned(own: Ownership, price: Fraction) -> Fraction:
    """What a full machine saves in a month, above its own cost."""
    saved = price - own.marginal_micros_per_mtok
    return own.capacity_tokens * saved / MTOK - own.machine_micros


def _fewest(own: Ownership, price: Fraction) -> int | None:
    if price <= own.marginal_micros_per_mtok:
        return None
    earned = _earned(own, price)
    if earned < 0 or (earned == 0 and own.shared_micros > 0):
        return None
    return max(1, math.ceil(own.shared_micros / earned)) if earned > 0 else 1


def _for_good(own: Ownership, price: Fraction) -> Fraction | None:
    """Where a further machine is paid for even by its first token: n machines full earn
    (n + 1) × fixed + shared."""
    earned = _earned(own, price)
    if earned <= 0:
        return None
    saved = price - own.marginal_micros_per_mtok
    full = math.ceil((own.shared_micros + own.machine_micros) / earned)
    # The last step before that begins at full - 1 machines, and is met within it.
    within = (own.shared_micros + max(1, full) * own.machine_micros) * MTOK / saved
    return max(within, max(0, full - 1) * own.capacity_tokens)
