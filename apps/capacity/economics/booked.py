"""What the ledger booked at an upstream, and how busy that is against its knee."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from django.utils import timezone

from apps.capacity.economics.mixing import Mix
from apps.capacity.economics.rates import HOUR_S, HOURS_A_MONTH
from apps.capacity.economics.splitting import Split
from apps.gateway.ledger.days import Period, day_of
from apps.gateway.ledger.selectors import Sums, by_each

DAYS = (1, 7, 30, 90)


@dataclass(frozen=True)
class Booked:
    """Calls of all tenants at one upstream in whole days of UTC, the last of which still runs.

    `hours` is all of that time, idle hours with it: a machine is paid for whether it is asked or
    not.
    """

    upstream: str
    days: int
    hours: Fraction
    sums: Sums

    @property
    def tokens(self) -> int:
        return self.sums.prompt_tokens + self.sums.output_tokens

    @property
    def tokens_a_month(self) -> Fraction:
        """If it went on like this for 730 hours: an extrapolation."""
        return self.tokens * HOURS_A_MONTH / self.hours

    @property
    def mix(self) -> Mix:
        sums = self.sums
        return Mix.of(
            prompt=sums.prompt_tokens,
            cached=min(sums.cached_tokens, sums.prompt_tokens),
            output=sums.output_tokens,
            origin=f"the ledger at {self.upstream}, {self.days_words}",
        )

    @property
    def days_words(self) -> str:
        return "today" if self.days == 1 else f"the last {self.days} days"

    def utilisation(self, split: Split) -> Fraction | None:
        """Seconds that the machine needs at the knee for what was booked ÷ seconds that went by.

        Where all is on output that is tokens written ÷ tokens that could have been. Above 1: more
        was asked than the knee carries, or of another kind than in the test, or of several
        machines. None where it would be 0.
        """
        needed = split.seconds(self.sums.prompt_tokens, self.sums.output_tokens)
        return needed / (self.hours * HOUR_S) if needed else None


def read_booked(upstream: str, days: int) -> Booked | None:
    """None where no token was booked there, or `upstream` is ""."""
    if not upstream:
        return None
    now = timezone.now()
    today = day_of(now, "UTC")
    period = Period(today - timedelta(days=days - 1), today)
    lines = by_each(None, period, ["upstream"])["upstream"]
    sums = next((line.sums for line in lines if line.key == upstream), None)
    if sums is None or not sums.prompt_tokens + sums.output_tokens:
        return None
    elapsed = now - period.begins
    seconds = Fraction(max(1, elapsed // timedelta(seconds=1)))
    return Booked(upstream, days, seconds / HOUR_S, sums)
