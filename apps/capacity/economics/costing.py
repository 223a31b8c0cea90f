"""What tokens cost on one measured machine, beside what others take, from one set of choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from apps.capacity.catalogue.selectors import list_prices, rentals
from apps.capacity.economics.booked import Booked, read_booked
from apps.capacity.economics.breaking_even import BreakEven, Ownership, break_even
from apps.capacity.economics.choices import SHARES, Choices
from apps.capacity.economics.mixing import Mix
from apps.capacity.economics.rates import HOUR_S, MONTH_S, MTOK, month_micros
from apps.capacity.economics.splitting import Split, Throughput, input_share_of_cost
from apps.capacity.economics.words import percent
from apps.capacity.models import ListPrice, RentalPrice

Seconds = Callable[[Throughput], Fraction]  # of the machine, for a token


@dataclass(frozen=True)
class Range:
    """Micros a million tokens, with what the knee's 95 % interval makes of it."""

    value: Fraction
    low: Fraction | None = None
    high: Fraction | None = None


@dataclass(frozen=True)
class Usage:
    """How much of the knee is asked for over all hours that are paid."""

    label: str
    share: Fraction | None  # of all on output; None: not known
    share_by_time: Fraction | None
    is_ledger: bool = False


@dataclass(frozen=True)
class CostRow:
    """A million tokens at one utilisation; None where it is not known."""

    usage: Usage
    all_on_output: Range | None
    split_input: Range | None
    split_output: Range | None
    together: Range | None  # a million of both kinds, in the mix


@dataclass(frozen=True)
class ApiRow:
    price: ListPrice
    blended: Fraction
    own_share: Fraction | None  # the machine's cost, planned utilisation, ÷ this


@dataclass(frozen=True)
class EndpointRow:
    price: ListPrice
    month: Fraction
    blended: Fraction  # if an instance carried what the measured machine does, as busy as planned


@dataclass(frozen=True)
class RentalRow:
    price: RentalPrice
    gpus: int
    is_measured: bool  # it is the GPU that the test was made on
    low: Fraction | None  # a million tokens written, all on output, at the knee
    high: Fraction | None


@dataclass(frozen=True)
class EvenRow:
    """Where owning wins against the chosen API, at one utilisation."""

    usage: Usage
    own: Ownership
    even: BreakEven


@dataclass(frozen=True)
class Costs:
    """The answer. `rows` begin with the knee fully used."""

    choices: Choices
    booked: Booked | None
    mix: Mix
    mix_note: str  # why it is not the one that was asked for
    rows: list[CostRow]
    apis: list[ApiRow]
    endpoints: list[EndpointRow]
    rentals: list[RentalRow]
    evens: list[EvenRow]  # none without an API

    @property
    def planned(self) -> Ownership:
        """At the utilisation that is planned with."""
        return ownership(self, self.choices.busy)

    @property
    def even(self) -> BreakEven | None:
        """At the utilisation that is planned with, against the chosen API."""
        price = self.api_per_mtok
        return None if price is None else break_even(self.planned, price_micros_per_mtok=price)

    @property
    def api_per_mtok(self) -> Fraction | None:
        return blended(self.choices.api, self.mix) if self.choices.api else None

    @property
    def volume_tokens(self) -> Fraction | None:
        """A month: as typed, or as the ledger would go on."""
        if self.choices.volume_tokens is not None:
            return self.choices.volume_tokens
        return self.booked.tokens_a_month if self.booked else None

    @property
    def split(self) -> Split:
        """By time where that was measured. For the test's own mix both come to the same."""
        return self.choices.measured.by_time or self.choices.measured.on_output


def compute(choices: Choices) -> Costs:
    """Reads the catalogue and the ledger; the rest is arithmetic. Raises PlanInvalid."""
    booked = read_booked(choices.measured.upstream, choices.days)
    mix, note = _mix(choices, booked)
    bare = Costs(choices, booked, mix, note, [], [], [], [], [])
    usages = _usages(bare)
    return Costs(
        choices,
        booked,
        mix,
        note,
        rows=[_row(bare, usage) for usage in usages],
        apis=_apis(bare),
        endpoints=_endpoints(bare),
        rentals=_rentals(bare),
        evens=_evens(bare, usages),
    )


def blended(price: ListPrice, mix: Mix) -> Fraction:
    """Micros a million tokens of the mix at a managed API."""
    cached = price.cached_input_micros_per_mtok
    read = price.input_micros_per_mtok
    return mix.blend(read, read if cached is None else cached, price.output_micros_per_mtok)


def seconds_per_token(split: Split, mix: Mix) -> Fraction:
    """Of the machine at the knee, for a token of the mix."""
    return mix.input_share * split.input_s + mix.output_share * split.output_s


def ownership(costs: Costs, share: Fraction) -> Ownership:
    """One machine of those measured, asked for `share` of its knee."""
    choices = costs.choices
    return Ownership(
        machine_micros=month_micros(choices.hour.micros),
        capacity_tokens=MONTH_S * share / seconds_per_token(costs.split, costs.mix),
        shared_micros=choices.shared_micros,
        marginal_micros_per_mtok=choices.marginal_micros_per_mtok,
    )


def _mix(choices: Choices, booked: Booked | None) -> tuple[Mix, str]:
    measured = choices.measured
    own = Mix(
        measured.made.input_share, measured.cached_share or Fraction(0), "the load test's workload"
    )
    if choices.mix_of == "test":
        return own, ""
    if booked is None:
        return own, "Nothing was booked in these days: the mix is that of the load test."
    mix = booked.mix
    if not mix.output_share and measured.by_time is None:
        return own, "No token was written in these days: the mix is that of the load test."
    return mix, ""


def _usages(costs: Costs) -> list[Usage]:
    choices, booked = costs.choices, costs.booked
    shares = sorted({*SHARES, choices.busy}, reverse=True)
    known = [Usage(percent(share), share, share) for share in shares]
    if booked is None:
        return [*known, Usage("The ledger’s", None, None, is_ledger=True)]
    measured = choices.measured
    by_time = booked.utilisation(measured.by_time) if measured.by_time else None
    return [
        *known,
        Usage("The ledger’s", booked.utilisation(measured.on_output), by_time, is_ledger=True),
    ]


def _row(costs: Costs, usage: Usage) -> CostRow:
    measured = costs.choices.measured
    on_output = _range(costs, usage.share, lambda made: Split(Fraction(0), made).output_s)
    rates = measured.alone
    if rates is None:
        return CostRow(usage, on_output, None, None, _together(costs, usage))

    def split(made: Throughput) -> Split:
        return Split(input_share_of_cost(rates, made), made)

    return CostRow(
        usage,
        on_output,
        _range(costs, usage.share_by_time, lambda made: split(made).input_s),
        _range(costs, usage.share_by_time, lambda made: split(made).output_s),
        _together(costs, usage),
    )


def _together(costs: Costs, usage: Usage) -> Range | None:
    """What the hour costs over all tokens of the mix."""
    share = usage.share if costs.choices.measured.by_time is None else usage.share_by_time
    rates = costs.choices.measured.alone

    def seconds(made: Throughput) -> Fraction:
        part = input_share_of_cost(rates, made) if rates else Fraction(0)
        return seconds_per_token(Split(part, made), costs.mix)

    return _range(costs, share, seconds)


def _range(costs: Costs, share: Fraction | None, seconds: Seconds) -> Range | None:
    """Hour ÷ 3,600 × seconds of a token ÷ utilisation, and the same at the interval's ends."""
    if not share:
        return None
    choices = costs.choices
    per_second = choices.hour.micros * MTOK / HOUR_S / share
    least, most = choices.measured.least, choices.measured.most
    return Range(
        per_second * seconds(choices.measured.made),
        None if most is None else per_second * seconds(most),
        None if least is None else per_second * seconds(least),
    )


def _apis(costs: Costs) -> list[ApiRow]:
    """Those said to be comparable with the measured model first, then the cheapest."""
    own = ownership(costs, costs.choices.busy).full_micros_per_mtok
    model = costs.choices.measured.model
    rows = []
    for price in list_prices(offer=ListPrice.Offer.API):
        each = blended(price, costs.mix)
        rows.append(ApiRow(price, each, own / each if each else None))
    return sorted(rows, key=lambda row: (row.price.comparable_to != model, row.blended))


def _endpoints(costs: Costs) -> list[EndpointRow]:
    each = seconds_per_token(costs.split, costs.mix) * MTOK / HOUR_S / costs.choices.busy
    rows = [
        EndpointRow(price, month_micros(hour), hour * each)
        for price in list_prices(offer=ListPrice.Offer.ENDPOINT)
        if (hour := price.hour_micros) is not None
    ]
    return sorted(rows, key=lambda row: row.month)


def _rentals(costs: Costs) -> list[RentalRow]:
    """The GPU that was measured first; of others nothing is computed, for nothing was measured."""
    measured = costs.choices.measured
    gpu, gpus = measured.gpu, measured.gpus
    rows = []
    for price in rentals():
        is_measured = bool(gpu) and price.gpu.name == gpu
        ends = [
            measured.on_output.output_per_mtok(gpus * hour) if is_measured else None
            for hour in (price.low_micros_per_hour, price.high_micros_per_hour)
        ]
        rows.append(RentalRow(price, gpus, is_measured, *ends))
    return sorted(rows, key=lambda row: not row.is_measured)


def _evens(costs: Costs, usages: list[Usage]) -> list[EvenRow]:
    price = costs.api_per_mtok
    if price is None:
        return []
    rows = []
    for usage in usages:
        share = usage.share if costs.choices.measured.by_time is None else usage.share_by_time
        if share:
            own = ownership(costs, share)
            rows.append(EvenRow(usage, own, break_even(own, price_micros_per_mtok=price)))
    return rows
