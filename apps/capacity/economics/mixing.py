"""One price for a million tokens of a workload, from prices for those read and those written."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.economics.rates import Number, not_negative
from apps.capacity.errors import PlanInvalid


@dataclass(frozen=True, slots=True)
class Mix:
    """Of all tokens, those read; of those, the ones that the server's prompt cache held."""

    input_share: Fraction
    cached_share: Fraction = Fraction(0)
    origin: str = ""  # in words

    def __post_init__(self) -> None:
        for share in (self.input_share, self.cached_share):
            if not 0 <= share <= 1:
                raise PlanInvalid("A share of tokens is to be from 0 to 1.")

    @classmethod
    def of(cls, *, prompt: Number, cached: Number, output: Number, origin: str = "") -> Mix:
        """From counts of tokens, the cached ones among the prompts'. Raises PlanInvalid."""
        read = not_negative(prompt, "Tokens read")
        written = not_negative(output, "Tokens written")
        if read + written == 0:
            raise PlanInvalid("There are no tokens to tell a mix from.")
        kept = min(not_negative(cached, "Cached tokens"), read)
        return cls(read / (read + written), kept / read if read else Fraction(0), origin)

    @property
    def output_share(self) -> Fraction:
        return 1 - self.input_share

    @property
    def input_per_output(self) -> Fraction | None:
        """Tokens read for each that is written; None where none is."""
        return self.input_share / self.output_share if self.output_share else None

    def blend(self, read: Number, cached: Number, written: Number) -> Fraction:
        """Micros of a million tokens of this mix, from micros of a million of each kind."""
        each = [not_negative(price, "A price") for price in (read, cached, written)]
        fresh = each[0] * (1 - self.cached_share) + each[1] * self.cached_share
        return self.input_share * fresh + self.output_share * each[2]
