"""How the cost of an hour is divided between the tokens read and those written.

Nothing about a machine says it: both are made by the same hours. Two ways are shown. All on output
is how self-hosted models are usually quoted, and prompts are free then. The other weighs a token
read and a token written by the time that each takes when a request is alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.economics.rates import HOUR_S, MTOK, Number, not_negative, positive


@dataclass(frozen=True, slots=True)
class Alone:
    """Seconds of a request at the lightest load that was measured, and its tokens.

    In the time to the first token there is one step of writing, and the way to the server: input
    is weighed a little too heavily. Writing gets cheaper by the token when answers are written
    side by side, which weighs output too heavily, and more so the more there are.
    """

    input_s: Fraction  # of a token read: TTFT ÷ tokens of the prompt that no cache held
    output_s: Fraction  # of a token written: TPOT


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a machine does in a second at the knee."""

    input_per_s: Fraction
    output_per_s: Fraction

    @property
    def input_share(self) -> Fraction:
        """Of all tokens, those read."""
        return self.input_per_s / (self.input_per_s + self.output_per_s)


def alone(*, ttft_ms: Number, uncached_tokens: Number, tpot_ms: Number) -> Alone:
    """From means of the lightest load; raises PlanInvalid."""
    read = positive(ttft_ms, "The time to the first token") / 1000
    return Alone(
        read / positive(uncached_tokens, "The tokens read"),
        positive(tpot_ms, "The time of a token") / 1000,
    )


def input_share_of_cost(rates: Alone, made: Throughput) -> Fraction:
    """in × its seconds ÷ (in × its seconds + out × its seconds), 0 to 1."""
    read = made.input_per_s * rates.input_s
    return read / (read + made.output_per_s * rates.output_s)


@dataclass(frozen=True, slots=True)
class Split:
    """One way of dividing an hour: `input_share` of it is paid by the tokens read."""

    input_share: Fraction
    made: Throughput

    @property
    def input_s(self) -> Fraction:
        """Seconds of the machine at the knee that a token read pays for."""
        return self.input_share / self.made.input_per_s if self.input_share else Fraction(0)

    @property
    def output_s(self) -> Fraction:
        return (1 - self.input_share) / self.made.output_per_s

    def input_per_mtok(self, hour_micros: Number, utilisation: Number = 1) -> Fraction:
        """Micros of a million tokens read; 0 where all is on output."""
        return self._per_mtok(hour_micros, self.input_s, utilisation)

    def output_per_mtok(self, hour_micros: Number, utilisation: Number = 1) -> Fraction:
        return self._per_mtok(hour_micros, self.output_s, utilisation)

    def seconds(self, input_tokens: Number, output_tokens: Number) -> Fraction:
        """How long the machine would have to work at the knee for so many tokens."""
        read = not_negative(input_tokens, "Tokens read") * self.input_s
        return read + not_negative(output_tokens, "Tokens written") * self.output_s

    def _per_mtok(self, hour_micros: Number, seconds: Fraction, utilisation: Number) -> Fraction:
        hour = not_negative(hour_micros, "The price of an hour")
        return hour * seconds * MTOK / (HOUR_S * positive(utilisation, "The utilisation"))
