"""What is asked of the page of costs. Sums are in units of the site's currency."""

from __future__ import annotations

import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms
from django.conf import settings

from apps.capacity.catalogue.selectors import list_prices, rentals
from apps.capacity.economics.amortising import Hardware
from apps.capacity.economics.booked import DAYS
from apps.capacity.economics.choices import BUSY, Choices, Hour
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.rates import exact
from apps.capacity.economics.words import day
from apps.capacity.models import ListPrice, LoadTest, RentalPrice
from apps.tenants.money import MICROS, format_money

BOUGHT = ("purchase", "years", "power_w", "kwh", "hosting")
MORE = ("busy", "volume", "shared", "marginal")
TEST, TYPED, OWN, RENTAL = "test", "typed", "own", "rental"
DEFAULT_DAYS = 7
_MOST = Decimal(10**9)


def _sum(label: str, help_text: str = "") -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        help_text=help_text,
        required=False,
        min_value=Decimal(0),
        max_value=_MOST,
        max_digits=16,
        decimal_places=6,
    )


class CostsForm(forms.Form):
    """All fields may be left out: then the test's own price, and the first comparable API."""

    test = forms.ChoiceField(label="Load test", required=False)
    price = forms.ChoiceField(label="Price of an hour", required=False)
    hour = _sum("An hour, if typed", "Of the whole machine, all its GPUs.")
    purchase = _sum("It was bought for")
    years = forms.DecimalField(
        label="Years of use",
        required=False,
        min_value=Decimal("0.1"),
        max_value=Decimal(30),
        max_digits=5,
        decimal_places=2,
    )
    power_w = _sum("Watts it draws", "At work; it is counted for every hour.")
    kwh = _sum("A kWh costs")
    hosting = _sum("Hosting a month", "Space, network, repairs, the people who look after it.")
    api = forms.ChoiceField(label="Managed API to compare with", required=False)
    endpoint = forms.ChoiceField(label="Managed endpoint", required=False)
    days = forms.TypedChoiceField(
        label="The ledger's days",
        required=False,
        coerce=int,
        choices=[(each, "today" if each == 1 else f"last {each} days") for each in DAYS],
    )
    mix = forms.ChoiceField(
        label="Tokens read and written",
        required=False,
        choices=[("test", "as in the load test"), ("ledger", "as in the ledger")],
    )
    busy = forms.DecimalField(
        label="Planned use of the knee, %",
        help_text="Over all hours of a month. Nights and quiet days count.",
        required=False,
        min_value=Decimal("0.1"),
        max_value=Decimal(100),
        max_digits=5,
        decimal_places=2,
    )
    volume = forms.DecimalField(
        label="Million tokens a month",
        help_text="Read and written together. Empty: as the ledger goes on.",
        required=False,
        min_value=Decimal("0.000001"),
        max_value=Decimal(10**12),
        max_digits=20,
        decimal_places=6,
    )
    shared = _sum("Fixed costs a month", "Beside the machines: people, contracts.")
    marginal = _sum("Per million tokens", "What each token costs on top of the hours.")

    def __init__(
        self, data: Any, *, tests: list[LoadTest], measured: Measured | None, **options: Any
    ) -> None:
        asked = data.copy()
        super().__init__(asked, **options)
        self.measured = measured
        self.rentals = {row.pk: row for row in rentals()}
        self.prices = {row.pk: row for row in list_prices()}
        # An older one than the list shows may be asked for by its address.
        if measured and measured.test not in tests:
            tests = [*tests, measured.test]
        self._choose("test", [(str(test.id), _test_words(test)) for test in tests])
        self._choose("price", self._hours())
        model = measured.model if measured else ""
        self._choose("api", _offers(self.prices.values(), ListPrice.Offer.API, model))
        self._choose("endpoint", _offers(self.prices.values(), ListPrice.Offer.ENDPOINT, model))
        # What is left out is shown with what is computed with in its place.
        for name, value in self._defaults().items():
            asked.setdefault(name, value)

    @property
    def basic(self) -> list[forms.BoundField]:
        return [self[name] for name in ("test", "price", "hour", "api", "endpoint", "days", "mix")]

    @property
    def bought(self) -> list[forms.BoundField]:
        return [self[name] for name in BOUGHT]

    @property
    def is_bought(self) -> bool:
        return self.data.get("price") == OWN or any(name in self.errors for name in BOUGHT)

    @property
    def more(self) -> list[forms.BoundField]:
        return [self[name] for name in MORE]

    @property
    def has_more(self) -> bool:
        return any(self.data.get(n) or n in self.errors for n in MORE if n != "busy")

    def clean(self) -> dict[str, Any]:
        """What belongs to the kind of price that was chosen has to be there."""
        cleaned: dict[str, Any] = super().clean() or {}
        source = cleaned.get("price", "")
        needed = {TYPED: ["hour"], OWN: ["purchase", "years"]}.get(source, [])
        for name in needed:
            if cleaned.get(name) is None and name not in self.errors:
                self.add_error(name, "Needed for this kind of price.")
        return cleaned

    def choices(self) -> Choices | None:
        """What was chosen, of a valid form; None where no price of an hour is known yet."""
        cleaned, measured = self.cleaned_data, self.measured
        hour = self._hour(cleaned.get("price", ""))
        if measured is None or hour is None:
            return None
        return Choices(
            measured=measured,
            hour=hour,
            api=self._offer(cleaned["api"]),
            endpoint=self._offer(cleaned["endpoint"]),
            days=cleaned["days"] or DEFAULT_DAYS,
            mix_of="ledger" if cleaned["mix"] == "ledger" else "test",
            busy=BUSY if cleaned["busy"] is None else exact(cleaned["busy"]) / 100,
            shared_micros=_micros(cleaned["shared"]),
            marginal_micros_per_mtok=_micros(cleaned["marginal"]),
            volume_tokens=None if cleaned["volume"] is None else exact(cleaned["volume"]) * MICROS,
        )

    def _choose(self, name: str, found: list[tuple[str, Any]]) -> None:
        self.fields[name].choices = found  # type: ignore[attr-defined]

    def _defaults(self) -> dict[str, str]:
        return {
            "test": str(self.measured.test.id) if self.measured else "",
            "price": self._first_price(),
            "api": self._first_api(),
            "days": str(DEFAULT_DAYS),
            "mix": "test",
            "busy": f"{float(100 * BUSY):g}",
        }

    def _own_hour(self) -> int | None:
        """As it was given with the test."""
        found = self.measured.test.conditions.get("hour_micros") if self.measured else None
        known = isinstance(found, int) and not isinstance(found, bool) and found >= 0
        return found if known else None

    def _first_price(self) -> str:
        return TEST if self._own_hour() is not None else ""

    def _first_api(self) -> str:
        """A comparable one where there is any, else the cheapest."""
        found = list(self.fields["api"].choices)  # type: ignore[attr-defined]
        return str(found[1][0]) if found[1:] else ""

    def _hours(self) -> list[tuple[str, Any]]:
        own = self._own_hour()
        found: list[tuple[str, Any]] = []
        if own is not None:
            found.append((TEST, f"{format_money(own)}, given with the test"))
        else:
            found.append(("", "Choose one"))
        found += [(TYPED, "typed below"), (OWN, "bought: computed from the fields below")]
        gpu = self.measured.gpu if self.measured else ""
        rows = sorted(self.rentals.values(), key=lambda row: row.gpu.name != gpu)
        ends = [(row, end) for row in rows for end in ("low", "high")]
        listed = [(f"{RENTAL}:{row.pk}:{end}", _rental_words(row, end)) for row, end in ends]
        return [*found, *([("Rented, a GPU", listed)] if listed else [])]

    def _hour(self, source: str) -> Hour | None:
        cleaned = self.cleaned_data
        own = self._own_hour()
        if source == TEST and own is not None:
            return Hour(Fraction(own), "typed", "given with the load test")
        if source == TYPED:
            return Hour(_micros(cleaned["hour"]), "typed", "typed on the page")
        if source == OWN:
            return self._bought()
        if source.startswith(RENTAL) and self.measured is not None:
            return self._rented(source, self.measured)
        return None

    def _bought(self) -> Hour:
        cleaned = self.cleaned_data
        hardware = Hardware(
            purchase_micros=_micros(cleaned["purchase"]),
            years=cleaned["years"],
            power_w=cleaned["power_w"] or 0,
            kwh_micros=_micros(cleaned["kwh"]),
            hosting_micros_a_month=_micros(cleaned["hosting"]),
        )
        words = (
            f"bought for {format_money(round(_micros(cleaned['purchase'])))}, used "
            f"{cleaned['years'].normalize():f} years, {(cleaned['power_w'] or 0):.0f} W at "
            f"{format_money(round(_micros(cleaned['kwh'])))} a kWh, hosting "
            f"{format_money(round(_micros(cleaned['hosting'])))} a month"
        )
        return Hour(hardware.hour_micros, "computed", words)

    def _rented(self, source: str, measured: Measured) -> Hour:
        """One of the form's own choices."""
        _, pk, end = source.split(":")
        row, gpus = self.rentals[int(pk)], measured.gpus
        micros = row.low_micros_per_hour if end == "low" else row.high_micros_per_hour
        warning = ""
        if row.gpu.name != measured.gpu:
            warning = (
                f"This is the price of {row.gpu.name}, but the test ran on {measured.machine}."
            )
        return Hour(
            Fraction(micros * gpus),
            "list",
            f"{gpus} × {row.gpu.name} at {row.provider}, {end} end of the list",
            row.source,
            row.as_of,
            warning,
        )

    def _offer(self, pk: str) -> ListPrice | None:
        return self.prices.get(int(pk)) if pk else None


def test_id_of(text: str) -> uuid.UUID | None:
    """None where it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def currency_note() -> str:
    """The catalogue begins with prices in US dollars, and no rate of exchange is known here."""
    if settings.CURRENCY == "USD":
        return ""
    return (
        f"The catalogue began with prices in US dollars and takes its figures to be "
        f"{settings.CURRENCY}: enter them anew in {settings.CURRENCY}."
    )


def _micros(units: Decimal | None) -> Fraction:
    return exact(units or 0) * MICROS


def _test_words(test: LoadTest) -> str:
    return f"{test.name}, {day(test.finished_at or test.created_at)}"


def _rental_words(row: RentalPrice, end: str) -> str:
    micros = row.low_micros_per_hour if end == "low" else row.high_micros_per_hour
    return f"{row.gpu.name}: {format_money(micros)}, {end} at {row.provider}"


def _offers(prices: Any, offer: str, model: str) -> list[tuple[str, Any]]:
    """Those of a comparable model first; then by price."""
    rows = [row for row in prices if row.offer == offer]
    rows.sort(
        key=lambda row: (
            row.comparable_to != model,
            row.hour_micros or 0,
            row.output_micros_per_mtok,
            row.provider,
            row.model,
        )
    )
    return [("", "none"), *((str(row.pk), f"{row.provider}: {row.model}") for row in rows)]
