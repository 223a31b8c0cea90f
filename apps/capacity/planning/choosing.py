"""The choice between a managed API, a managed endpoint and own GPUs, and what would reverse it."""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.arithmetic.derived import figure
from apps.capacity.planning.fleet import Fleet
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.money import Money, machine_requests_a_day
from apps.capacity.planning.saying import digits
from apps.capacity.planning.serving import Load
from apps.tenants.money import format_money

# Own machines must save so much before the work that they make is worth it: a rule of thumb.
_WORTH_IT = 0.8


@dataclass(frozen=True, slots=True)
class Choice:
    """A recommendation in a sentence, why, and what would turn it round."""

    title: str
    reasons: list[str]
    reverses: list[str]
    lacking: list[str]  # what the catalogue does not have, so that the choice is of less


def choose(inputs: PlanInputs, load: Load, fleet: Fleet | None, money: Money | None) -> Choice:
    """By cost at this demand; what cost cannot weigh stands among what would reverse it."""
    if fleet is None or money is None:
        return _cannot_own(load)
    own = money.own[0] if money.own else None
    api = money.apis[0] if money.apis else None
    endpoint = money.endpoints[0] if money.endpoints else None
    lacking = _lacking(money)
    if own is None:
        return Choice(
            "No choice can be computed yet: no price of a GPU's hour is known.",
            ["Give a price of the GPU's hour above, or add one to the catalogue."],
            [],
            lacking,
        )
    if api is None and endpoint is None:
        return _nothing_to_compare(inputs, load, money, lacking)
    own_low, own_high = own.month[0].value, own.month[1].value
    managed = min((c for c in (api, endpoint) if c), key=lambda cost: cost.month.value)
    compared = (
        f"Own GPUs cost {_range(own_low, own_high)} a month at {own.price.label}; "
        f"{managed.price.label} takes {format_money(managed.month.value)} for the same requests."
    )
    busy = f"The machines would be busy {fleet.mean_busy.value:.0f} % of a mean day."
    kind = "a managed endpoint" if managed is endpoint else "a managed API"
    if own_high <= managed.month.value * _WORTH_IT:
        title = "Own GPUs cost least, even at the high end of their price."
    elif own_low > managed.month.value:
        title = f"Buy: {kind} costs least at this demand."
    else:
        title = (
            f"Start with {kind}: own GPUs would save less than {1 - _WORTH_IT:.0%}, or only at the "
            "low end of their price."
        )
    return Choice(title, [compared, busy], _reversals(inputs, load, money), lacking)


def _cannot_own(load: Load) -> Choice:
    words = {
        "memory": "The model does not fit on these GPUs.",
        "ttft": "Not even an idle machine keeps the promise of the first token.",
        "tpot": "Not even an idle machine keeps the promise of the time a token.",
        "e2e": "Not even an idle machine keeps the promise of the whole answer.",
        "engine": "The engine takes no request.",
    }
    return Choice(
        "Own GPUs of this kind are out: buy, or change the plan.",
        [words[load.limit]],
        ["A change among those named in steps 1 and 3. Then compare again."],
        [],
    )


def _nothing_to_compare(inputs: PlanInputs, load: Load, money: Money, lacking: list[str]) -> Choice:
    threshold = money.api_threshold
    words = format_money(threshold.value) if threshold else "–"
    return Choice(
        "Own GPUs can carry it; whether buying costs less is open.",
        [
            f"No list price of a comparable model is in the catalogue. Own GPUs win against an API "
            f"that takes more than {words} for a million tokens, in and out together."
        ],
        [f"An API for a comparable model below {words} for a million tokens.", *_beyond_money()],
        lacking,
    )


def _reversals(inputs: PlanInputs, load: Load, money: Money) -> list[str]:
    """Thresholds, computed."""
    found: list[str] = []
    even = money.break_even
    if even and even.low:
        high = f" ({figure(round(even.high.value))} at its high price)" if even.high else ""
        found.append(
            f"Own GPUs cost less than {even.against.label} above "
            f"{figure(round(even.low.value))} requests a day at {even.at.label}{high}, and more "
            f"below. Now: {figure(round(inputs.demand.a_day))}."
        )
    elif even:
        found.append(_hour_threshold(inputs, load, even.never, money))
    if money.api_threshold:
        found.append(
            f"An API below {format_money(money.api_threshold.value)} for a million tokens, in and "
            "out together, costs less than the cheapest of these machines; one above costs more."
        )
    if load.per_s.value:
        found.append(
            f"A machine that carries less than computed: the {digits(load.per_s.value)} requests a "
            "second are of bounds and assumed efficiencies. At half of that own GPUs cost twice as "
            "much: run the load test of step 6 first."
        )
    return [*found, *_beyond_money()]


def _hour_threshold(inputs: PlanInputs, load: Load, never: str, money: Money) -> str:
    """The price of an hour at which a full machine would cost what the API takes."""
    api = money.apis[0]
    requests = float(machine_requests_a_day(inputs, load))
    each = api.month.value / max(inputs.demand.a_day * 365 / 12, 1e-9)
    hour = requests * each / 24 / inputs.gpus / (1 + inputs.assumptions.overhead)
    return (
        f"{never} That changes at {format_money(hour)} or less for a GPU's hour (what the API "
        "takes for the requests that fill a machine, ÷ 24 hours, its GPUs and the overhead). Or "
        "where the requests of a day come more evenly, so that fewer machines carry their peak."
    )


def _beyond_money() -> list[str]:
    return [
        "Texts that may not leave your own machines: then own GPUs, whatever they cost.",
        "Nobody who looks after GPUs at night: then a managed offer, whatever it costs.",
    ]


def _lacking(money: Money) -> list[str]:
    found = []
    if not money.apis:
        found.append("a list price of a managed API for a comparable model")
    if not money.endpoints:
        found.append("an hourly price of a managed endpoint for a comparable model")
    if not money.own:
        found.append("a price of this GPU's hour")
    return found


def _range(low: float, high: float) -> str:
    if round(low) == round(high):
        return format_money(low)
    return f"{format_money(low)} to {format_money(high)}"
