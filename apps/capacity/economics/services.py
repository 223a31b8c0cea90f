"""A measured price in the gateway: what is booked from then on follows from a load test."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from django.db import transaction
from django.utils import timezone

from apps.capacity.economics.choices import Hour
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.rates import positive
from apps.capacity.economics.words import percent
from apps.capacity.errors import PlanInvalid
from apps.gateway.calling import catalogue
from apps.gateway.ledger.pricing import PerHour, PriceRefused, set_price
from apps.gateway.models import Price
from apps.telemetry.services import record_audit
from apps.tenants.models import User
from apps.tenants.money import MICROS

_NOTE_LENGTH = 200  # of Price.note
SOLD_BY_TOKENS = ("tgi", "openai")  # kinds of upstreams that write answers


@dataclass(frozen=True)
class MeasuredPrice:
    """A price by the hour as the gateway wants it.

    The gateway prices a token read at hour ÷ `input_tokens_per_s` and one written at hour ÷
    `output_tokens_per_s`, and adds the two. With the throughputs of the knee as they are an hour
    would be booked twice. So each is divided by its share of the hour: the knee's tokens of one
    hour, busy as `utilisation` says, are booked at the price of one hour.
    """

    hour: Decimal  # units of the currency, a fraction of a micro counts as one
    input_tokens_per_s: float
    output_tokens_per_s: float
    note: str


def measured_price(measured: Measured, hour: Hour, utilisation: Fraction) -> MeasuredPrice:
    """Raises PlanInvalid where the test does not say how the hour is to be divided."""
    split = measured.by_time
    if split is None:
        raise PlanInvalid(
            "This test has no times of the first token and of the tokens after it at a light load, "
            "so that its hour cannot be divided between tokens read and written. Measure again "
            "with answers of more than one token."
        )
    share = positive(utilisation, "The utilisation")
    micros = -(-hour.micros.numerator // hour.micros.denominator)
    return MeasuredPrice(
        hour=Decimal(micros) / MICROS,
        input_tokens_per_s=float(share / split.input_s),
        output_tokens_per_s=float(share / split.output_s),
        note=_note(measured, hour, share),
    )


def upstream_names() -> list[str]:
    """Those that write answers, as the ledger calls them."""
    found = catalogue.current().upstreams
    return sorted(upstream.name for upstream in found if upstream.kind in SOLD_BY_TOKENS)


def set_measured_price(
    *, price: MeasuredPrice, upstream: str, upstream_model: str = "", actor: User | None
) -> Price:
    """From now on; what is booked already keeps its cost. Raises PlanInvalid."""
    if upstream not in upstream_names():
        raise PlanInvalid(f"The gateway has no upstream {upstream[:60]!r} that writes answers.")
    rate = PerHour(price.hour, price.input_tokens_per_s, price.output_tokens_per_s)
    try:
        with transaction.atomic():
            found = set_price(
                upstream=upstream,
                upstream_model=upstream_model,
                rate=rate,
                valid_from=timezone.now(),
                note=price.note,
            )
            record_audit(
                action="price.added",
                tenant_id=None,
                actor_id=actor.pk if actor else None,
                subject_id=found.pk,
            )
            transaction.on_commit(catalogue.forget)
    except PriceRefused as exc:
        raise PlanInvalid(str(exc)) from exc
    return found


def _note(measured: Measured, hour: Hour, share: Fraction) -> str:
    when = measured.test.finished_at or measured.test.created_at
    ending = (
        f", {when:%Y-%m-%d}, {percent(share)} of the knee at {measured.load:g}, hour: {hour.kind}"
    )
    begin = f"Load test {str(measured.test.id)[:8]} "
    name = measured.test.name[: _NOTE_LENGTH - len(begin) - len(ending)]
    return f"{begin}{name}{ending}"
