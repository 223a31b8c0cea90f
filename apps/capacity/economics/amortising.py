"""What an hour of a machine costs that was bought rather than rented."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.economics.rates import HOURS_A_MONTH, Number, not_negative, positive

MONTHS_A_YEAR = 12
WATTS = 1000  # of a kilowatt

FORMULA = "purchase ÷ (years × 12) + watts ÷ 1,000 × 730 h × price of a kWh + hosting a month"


@dataclass(frozen=True, slots=True)
class Hardware:
    """A machine of one's own. `power_w` is drawn in every hour: an upper bound where idle hours
    draw less. No interest, no resale value, no repairs."""

    purchase_micros: Number
    years: Number
    power_w: Number = 0
    kwh_micros: Number = 0
    hosting_micros_a_month: Number = 0

    @property
    def power_micros_a_month(self) -> Fraction:
        kilowatts = not_negative(self.power_w, "The power") / WATTS
        return kilowatts * HOURS_A_MONTH * not_negative(self.kwh_micros, "The price of a kWh")

    @property
    def month_micros(self) -> Fraction:
        """`FORMULA`; raises PlanInvalid."""
        months = positive(self.years, "The years of use") * MONTHS_A_YEAR
        bought = not_negative(self.purchase_micros, "The purchase price") / months
        hosting = not_negative(self.hosting_micros_a_month, "The hosting")
        return bought + self.power_micros_a_month + hosting

    @property
    def hour_micros(self) -> Fraction:
        """A month's cost over its 730 hours, paid for whether they are used or not."""
        return self.month_micros / HOURS_A_MONTH
