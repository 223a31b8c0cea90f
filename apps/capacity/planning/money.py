"""Step 5, economics: what the machines cost, what others take for the same, and where they meet.

Money is micros; sums are exact fractions until they are shown. The machines' cost is laid on
output tokens alone where it is given for a million of them, as it is usual, and on all tokens
where an API's is held against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.arithmetic.derived import Derived, Input, figure, given
from apps.capacity.economics.breaking_even import Ownership, break_even
from apps.capacity.economics.rates import MTOK
from apps.capacity.planning.fleet import Fleet
from apps.capacity.planning.inputs import (
    DAYS_A_MONTH,
    HOURS_A_MONTH,
    Demand,
    HourPrice,
    ListedPrice,
    PlanInputs,
)
from apps.capacity.planning.serving import Load
from apps.tenants.money import format_money

_DAYS = Fraction(365, 12)


@dataclass(frozen=True, slots=True)
class OwnCost:
    """The fleet at one price of a GPU's hour: at its low end, and at its high one."""

    price: HourPrice
    month: tuple[Derived, Derived]
    per_mtok_full: tuple[Derived, Derived]  # of output, as busy as planned at the peak
    per_mtok_mean: tuple[Derived, Derived]  # of output, at the demand of a mean day

    @property
    def is_range(self) -> bool:
        return self.price.low_micros != self.price.high_micros


@dataclass(frozen=True, slots=True)
class ApiCost:
    """The same demand at a managed API or endpoint."""

    price: ListedPrice
    month: Derived


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Requests a day from which own machines cost less than an API; None: never, and why."""

    against: ListedPrice
    at: HourPrice
    low: Derived | None  # at the hour's low price
    high: Derived | None  # at its high price
    never: str = ""


@dataclass(frozen=True, slots=True)
class Money:
    gpu_hours: Derived
    own: list[OwnCost]
    apis: list[ApiCost]
    endpoints: list[ApiCost]
    break_even: BreakEven | None  # the cheapest own price against the cheapest API
    # A million tokens, in and out together, at which an API costs as much; at the cheapest hour.
    api_threshold: Derived | None


def money_for(inputs: PlanInputs, load: Load, fleet: Fleet) -> Money:
    """All of step 5."""
    own = [_own(inputs, load, fleet, price) for price in inputs.hours]
    own.sort(key=lambda cost: cost.month[0].value)
    apis = [_api(inputs.demand, p) for p in inputs.listed if p.hour_micros is None]
    apis.sort(key=lambda cost: cost.month.value)
    ends = [_endpoint(fleet, p) for p in inputs.listed if p.hour_micros is not None]
    ends.sort(key=lambda cost: cost.month.value)
    return Money(
        gpu_hours=_gpu_hours(fleet),
        own=own,
        apis=apis,
        endpoints=ends,
        break_even=_break_even(inputs, load, own[0].price, apis[0].price) if own and apis else None,
        api_threshold=_threshold(inputs, own[0]) if own else None,
    )


def requests_a_month(demand: Demand) -> Fraction:
    return Fraction(str(demand.a_day)) * _DAYS


def api_request_micros(demand: Demand, price: ListedPrice) -> Fraction:
    """What one mean request costs: new and reused prompt tokens, and output."""
    prompt, reuse = Fraction(str(demand.prompt.mean)), Fraction(str(demand.prefix_reuse))
    read = prompt * (1 - reuse) * price.input_micros_per_mtok
    reused = prompt * reuse * price.cached_micros_per_mtok
    written = Fraction(str(demand.output.mean)) * price.output_micros_per_mtok
    return (read + reused + written) / MTOK


def machine_month_micros(inputs: PlanInputs, hour_micros: int) -> Fraction:
    """Of one machine, its overhead included; people are not."""
    overhead = 1 + Fraction(str(inputs.assumptions.overhead))
    return hour_micros * inputs.gpus * HOURS_A_MONTH * overhead


def money(
    value: Fraction | float, unit: str, formula: str, *inputs: Input, note: str = ""
) -> Derived:
    """A sum in micros. `unit` is what it is for: "a month", "per million output tokens"."""
    return Derived(float(value), f"micros {unit}".strip(), formula, inputs, note)


def _gpu_hours(fleet: Fleet) -> Derived:
    count = fleet.gpus.value
    return Derived(
        count * HOURS_A_MONTH,
        "GPU-hours a month",
        f"GPUs × hours a month = {figure(count)} × {HOURS_A_MONTH}",
        (given("GPUs", fleet.gpus.text, note=fleet.gpus.formula),),
        "Rented all the time; machines that are switched off at night cost less.",
    )


def _own(inputs: PlanInputs, load: Load, fleet: Fleet, price: HourPrice) -> OwnCost:
    ends = (price.low_micros, price.high_micros)
    count = int(fleet.machines.value)
    output = inputs.demand.output.mean
    full_tokens = Fraction(str(load.output_per_s.value)) * count * 3600 * HOURS_A_MONTH
    mean_tokens = requests_a_month(inputs.demand) * Fraction(str(output))

    def per_mtok(hour: int, tokens: Fraction, busy: str) -> Derived:
        month = _month_micros(inputs, count, hour)
        return money(
            month * MTOK / tokens if tokens else 0,
            "per million output tokens",
            f"cost a month ÷ output tokens a month = {format_money(float(month))} ÷ "
            f"{figure(float(tokens) / 1e6)} million",
            given("cost a month", format_money(float(month))),
            given("output tokens a month", float(tokens), "", busy),
            note="All of the cost is laid on output; prompts are then free.",
        )

    busy = f"as many as the machines can write {inputs.assumptions.utilisation:.0%} busy"
    return OwnCost(
        price,
        month=(_month(inputs, fleet, ends[0]), _month(inputs, fleet, ends[1])),
        per_mtok_full=(per_mtok(ends[0], full_tokens, busy), per_mtok(ends[1], full_tokens, busy)),
        per_mtok_mean=(
            per_mtok(ends[0], mean_tokens, "requests a month × mean output"),
            per_mtok(ends[1], mean_tokens, "requests a month × mean output"),
        ),
    )


def _month_micros(inputs: PlanInputs, machines: int, hour_micros: int) -> Fraction:
    return machines * machine_month_micros(inputs, hour_micros) + inputs.staff_micros_a_month


def _month(inputs: PlanInputs, fleet: Fleet, hour_micros: int) -> Derived:
    staff, overhead = inputs.staff_micros_a_month, inputs.assumptions.overhead
    return money(
        _month_micros(inputs, int(fleet.machines.value), hour_micros),
        "a month",
        "GPUs × price of an hour × hours a month × (1 + overhead) + people's time = "
        f"{figure(fleet.gpus.value)} × {format_money(hour_micros)} × {HOURS_A_MONTH} × "
        f"{1 + overhead:g} + {format_money(staff)}",
        given("GPUs", fleet.gpus.text, note=fleet.gpus.formula),
        given("price of a GPU's hour", format_money(hour_micros)),
        given("overhead", f"{overhead:.0%}", "", "an assumption: storage, traffic, idle time"),
        given(
            "people's time a month",
            format_money(staff),
            "",
            "typed" if staff else "none was given: it is never free",
        ),
    )


def _api(demand: Demand, price: ListedPrice) -> ApiCost:
    each = api_request_micros(demand, price)
    requests = requests_a_month(demand)
    return ApiCost(
        price,
        money(
            each * requests,
            "a month",
            "requests a month × (new prompt tokens × price + reused × price + output × price) = "
            f"{figure(float(requests))} × ({figure(demand.prompt.mean * (1 - demand.prefix_reuse))}"
            f" × {format_money(price.input_micros_per_mtok)} + "
            f"{figure(demand.prompt.mean * demand.prefix_reuse)} × "
            f"{format_money(price.cached_micros_per_mtok)} + {figure(demand.output.mean)} × "
            f"{format_money(price.output_micros_per_mtok)}) ÷ 1,000,000",
            given(
                "requests a month",
                float(requests),
                "",
                f"{figure(demand.a_day)} a day × {figure(DAYS_A_MONTH)} days",
            ),
            given("prices", f"list of {price.as_of}", "", price.source),
            note="A list price: discounts, limits of rate and taxes are not in it.",
        ),
    )


def _endpoint(fleet: Fleet, price: ListedPrice) -> ApiCost:
    count, hour = int(fleet.machines.value), price.hour_micros or 0
    return ApiCost(
        price,
        money(
            Fraction(count * hour * HOURS_A_MONTH),
            "a month",
            f"instances × price of an hour × hours a month = {count} × {format_money(hour)} × "
            f"{HOURS_A_MONTH}",
            given("instances", count, "", "taken to carry what one of these machines does"),
            given("price of an hour", format_money(hour), "", price.source),
            note="Only a load test of the endpoint tells what one instance carries.",
        ),
    )


def _break_even(inputs: PlanInputs, load: Load, hour: HourPrice, api: ListedPrice) -> BreakEven:
    low = break_even_requests(inputs, load, hour.low_micros, api)
    high = break_even_requests(inputs, load, hour.high_micros, api)
    never = ""
    if low is None:
        never = (
            "Own GPUs never cost less at these prices, whatever the volume: even machines that "
            f"your peak fills cost more than the same requests at {api.label}."
        )
    return BreakEven(api, hour, low, high, never)


def break_even_requests(
    inputs: PlanInputs, load: Load, hour_micros: int, api: ListedPrice
) -> Derived | None:
    """The fewest requests a day at which machines cost no more than the API.

    Machines come whole, and the peak grows with the day. None: even full machines cost more.
    """
    tokens = Fraction(str(inputs.demand.prompt.mean + inputs.demand.output.mean))
    each = api_request_micros(inputs.demand, api)
    cap = machine_requests_a_day(inputs, load)
    own = Ownership(
        machine_micros=machine_month_micros(inputs, hour_micros),
        capacity_tokens=cap * _DAYS * tokens,
        shared_micros=Fraction(inputs.staff_micros_a_month),
    )
    found = break_even(own, price_micros_per_mtok=each * MTOK / tokens)
    if found.tokens is None or found.machines is None:
        return None
    machine, staff = own.machine_micros / _DAYS, own.shared_micros / _DAYS
    return Derived(
        float(found.tokens / tokens / _DAYS),
        "requests a day",
        "(machines × cost a day + people's time) ÷ cost of a request at the API = "
        f"({found.machines} × {format_money(float(machine))} + {format_money(float(staff))}) ÷ "
        f"{format_money(float(each))}",
        (
            given("machines", found.machines),
            given("one machine a day", format_money(float(machine))),
            given("a mean request at the API", format_money(float(each)), "", api.label),
            given(
                "a machine carries at most",
                float(cap),
                "requests a day",
                "at the peak that this demand has beside its mean",
            ),
        ),
        "Where the demand keeps its shape: lengths, reuse, and the peak beside the mean.",
    )


def machine_requests_a_day(inputs: PlanInputs, load: Load) -> Fraction:
    """Of one machine, with a peak as high above the mean as this demand's."""
    demand = inputs.demand
    per_s, peak = Fraction(str(load.per_s.value)), Fraction(str(demand.peak_per_s))
    return per_s / peak * Fraction(str(demand.a_day)) if peak else Fraction(0)


def _threshold(inputs: PlanInputs, own: OwnCost) -> Derived:
    demand = inputs.demand
    tokens = requests_a_month(demand) * Fraction(str(demand.prompt.mean + demand.output.mean))
    month = own.month[0]
    return money(
        Fraction(str(month.value)) * MTOK / tokens if tokens else 0,
        "per million tokens, in and out together",
        "cost a month ÷ tokens a month = "
        f"{format_money(month.value)} ÷ {figure(float(tokens) / 1e6)} million",
        given("cost a month", format_money(month.value), "", month.formula),
        given("tokens a month", float(tokens), "", "requests × (mean prompt + mean output)"),
        note="An API that takes less on average costs less than these machines.",
    )
