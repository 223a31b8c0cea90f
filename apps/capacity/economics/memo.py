"""One page for who decides: what to do, what would reverse it, and what that rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from apps.capacity.economics.booked import Booked
from apps.capacity.economics.breaking_even import Ownership
from apps.capacity.economics.choices import Choices, Kind
from apps.capacity.economics.costing import Costs, ownership
from apps.capacity.economics.measured import Measured
from apps.capacity.economics.rates import HOURS_A_MONTH, MONTH_S, MTOK
from apps.capacity.economics.selectors import OLD_DAYS, age_days
from apps.capacity.economics.words import day, money, percent, rounded, tokens
from apps.capacity.models import ListPrice
from apps.capacity.showing.words import load_words, promise_words

_NAME = 60  # the page is one
KINDS: dict[Kind, str] = {
    "measured": "measured here",
    "booked": "booked here",
    "list": "list figure",
    "typed": "typed",
    "computed": "computed",
    "assumed": "assumed",
}


@dataclass(frozen=True)
class Fact:
    """A figure of the memo, and where it is from."""

    name: str
    value: str
    kind: Kind
    source: str

    @property
    def kind_words(self) -> str:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Memo:
    title: str
    made_on: date
    recommendation: str
    because: list[str]
    facts: list[Fact]
    reverses: list[str]
    assumptions: list[str]


def write_memo(costs: Costs, *, today: date) -> Memo:
    """`today` tells how old list prices are."""
    measured = costs.choices.measured
    recommendation, because = _recommend(costs)
    if costs.choices.api and not is_comparable(costs):
        recommendation += " That compares prices: nobody has said that the answers are alike."
    return Memo(
        title=f"What {measured.model or 'the model'} costs on {measured.machine}",
        made_on=today,
        recommendation=recommendation,
        because=because,
        facts=list(_facts(costs, today)),
        reverses=list(_reverses(costs)),
        assumptions=list(_assumptions(costs)),
    )


def is_comparable(costs: Costs) -> bool:
    """Whether the catalogue says so of the API and the model that was measured."""
    api = costs.choices.api
    return api is not None and api.comparable_to == costs.choices.measured.model


def _recommend(costs: Costs) -> tuple[str, list[str]]:
    api, price = costs.choices.api, costs.api_per_mtok
    own = costs.planned
    busy = percent(costs.choices.busy)
    full = (
        f"A million tokens in this mix cost {money(own.full_micros_per_mtok)} on a machine "
        f"that is {busy} busy"
    )
    if api is None or price is None:
        return "Nothing to compare with: choose a managed API.", [f"{full}."]
    beside = f"{full}, and {money(price)} at {_named(api)}."
    even = costs.even
    if even is None or even.tokens is None:
        return (
            f"Pay by the token: at this price of an hour no volume makes owning cheaper than "
            f"{_named(api)}.",
            [beside, *_beyond(costs)],
        )
    wins = f"Owning wins from {tokens(even.tokens)} tokens a month on" + (
        f", with {even.machines} machines" if even.machines and even.machines > 1 else ""
    )
    volume = costs.volume_tokens
    if volume is None:
        return (
            f"Pay by the token below {tokens(even.tokens)} tokens a month; own the machine above.",
            [beside, "No volume was typed, and nothing was booked in these days."],
        )
    return _at_volume(own, volume, price, [beside, f"{wins}; now it is {tokens(volume)}."], api)


def _at_volume(
    own: Ownership, volume: Fraction, price: Fraction, because: list[str], api: ListPrice
) -> tuple[str, list[str]]:
    owned, paid = own.month_micros(volume), price * volume / MTOK
    machines = own.machines(volume)
    many = "the machine" if machines == 1 else f"{machines:,} machines"
    compared = f"A month costs {money(owned)} with {many} of your own, and {money(paid)} there."
    if owned <= paid:
        saved = f"{money(paid - owned)} less than at {_named(api)}"
        return f"Own {many}: at this volume a month costs {saved}.", [compared, *because]
    return (
        f"Pay by the token for now: at this volume owning costs {money(owned - paid)} a month more "
        f"than {_named(api)}.",
        [compared, *because],
    )


def _beyond(costs: Costs) -> list[str]:
    """The step function, where one machine is too small for what it would have to earn."""
    even, own = costs.even, costs.planned
    if even is None or even.one_tokens is None or not even.is_beyond_one:
        return []
    return [
        f"One machine would be earned back at {tokens(even.one_tokens)} tokens a month, but makes "
        f"{tokens(own.capacity_tokens)}; and each further machine costs as much again."
    ]


def _reverses(costs: Costs) -> Iterator[str]:
    """Thresholds, computed with everything else as it is."""
    price, even, own = costs.api_per_mtok, costs.even, costs.planned
    choices = costs.choices
    volume = costs.volume_tokens
    if price is not None and even is not None:
        if even.tokens is not None:
            yield f"Volume: {tokens(even.tokens)} tokens a month is where the two cost the same."
        if even.for_good_tokens is not None and even.for_good_tokens > (even.tokens or 0):
            yield (
                f"Steps: only from {tokens(even.for_good_tokens)} on owning wins at every volume; "
                "below, a further machine that is nearly idle may undo it."
            )
        yield from _thresholds(own, volume, price, choices)
        yield from _throughput_threshold(costs, own, volume, price)
        needed = least_busy(costs)
        if needed is not None:
            yield (
                f"Use: a machine has to be at least {percent(needed)} busy over all its hours"
                + (", more than it can be." if needed > 1 else ".")
            )
    measured = choices.measured
    promises = promise_words(measured.plan.promises)
    if promises:
        yield f"Promises: other ones than “{promises}” have another knee."
    yield "Quality: an answer that fails a gate is not cheaper, whatever it costs."


def _thresholds(
    own: Ownership, volume: Fraction | None, price: Fraction, choices: Choices
) -> Iterator[str]:
    """Of the API's price and of the hour: at the volume of now, else of a full machine."""
    if volume is None:
        volume, at = own.capacity_tokens, "with one machine as busy as planned"
    else:
        at = "at this volume"
    turns = own.month_micros(volume) * MTOK / volume
    yield f"API price: {money(turns)} a million tokens is where the two cost the same, {at}."
    hours = own.machines(volume) * HOURS_A_MONTH
    earned = (price - own.marginal_micros_per_mtok) * volume / MTOK - own.shared_micros
    if earned > 0:
        yield (
            f"Hour: owning wins {at} where an hour of the machine costs {money(earned / hours)} or "
            f"less; now {money(choices.hour.micros)}."
        )


def _throughput_threshold(
    costs: Costs, own: Ownership, volume: Fraction | None, price: Fraction
) -> Iterator[str]:
    """How little the machine may make at the knee, so that owning still wins."""
    needed = least_throughput(costs, own, volume, price)
    if needed is None:
        return
    made = own.capacity_tokens / (MONTH_S * costs.choices.busy)
    ends = _throughput_ends(costs)
    yield (
        f"Throughput: owning wins {'at this volume' if volume else 'at all'} while a machine makes "
        f"{rounded(needed)} tokens a second or more at the knee, both kinds together; "
        f"now {rounded(made)}{ends}."
    )


def least_throughput(
    costs: Costs, own: Ownership, volume: Fraction | None, price: Fraction
) -> Fraction | None:
    """Tokens a second at the knee, in the mix, below which owning loses; None where no
    throughput would do.

    Of a volume: it may take no more machines than it pays for. Without one: a machine, as busy as
    planned, has to earn its own cost.
    """
    a_month = MONTH_S * costs.choices.busy
    saved = price - own.marginal_micros_per_mtok
    if saved <= 0 or own.machine_micros <= 0:
        return None
    if volume is None:
        return own.machine_micros * MTOK / (saved * a_month)
    machines = (saved * volume / MTOK - own.shared_micros) // own.machine_micros
    return volume / machines / a_month if machines >= 1 else None


def _throughput_ends(costs: Costs) -> str:
    least, most = costs.choices.measured.least, costs.choices.measured.most
    if least is None or most is None or costs.choices.mix_of != "test":
        return ""
    ends = [made.input_per_s + made.output_per_s for made in (least, most)]
    return f" ({rounded(ends[0])} to {rounded(ends[1])} read and written over its interval)"


def least_busy(costs: Costs) -> Fraction | None:
    """Of the knee, over all hours: below it no number of machines is ever earned back.

    Machine ÷ (what its knee makes × (price − marginal)). None where no price is compared with, or
    tokens cost more on top of the hours than the API takes.
    """
    price = costs.api_per_mtok
    whole = ownership(costs, Fraction(1))
    if price is None or price <= whole.marginal_micros_per_mtok:
        return None
    saved = whole.capacity_tokens * (price - whole.marginal_micros_per_mtok) / MTOK
    return whole.machine_micros / saved


def _facts(costs: Costs, today: date) -> Iterator[Fact]:
    choices = costs.choices
    yield from _measured_facts(choices.measured)
    hour = choices.hour
    source = hour.words if hour.as_of is None else _dated(hour.source, hour.as_of, today)
    yield Fact(
        f"An hour of the machine ({hour.words})" if hour.as_of else "An hour of the machine",
        money(hour.micros),
        hour.kind,
        source,
    )
    full = costs.rows[0]
    if full.all_on_output:
        spread = full.all_on_output
        ends = (
            f", {money(spread.low)} to {money(spread.high)} over the knee’s 95 % interval"
            if spread.low is not None and spread.high is not None
            else ""
        )
        yield Fact(
            "A million tokens written, all cost on them",
            _by_use(costs),
            "computed",
            f"hour ÷ (3,600 × tokens a second × use){ends}",
        )
    if full.split_input and full.split_output:
        yield Fact(
            "… read / written, hour divided by time",
            f"{money(full.split_input.value)} / {money(full.split_output.value)} at the knee",
            "computed",
            "by the time that a token of each kind takes at the lightest load",
        )
    if costs.booked:
        booked = costs.booked
        yield Fact(
            "Booked at this upstream",
            f"{tokens(booked.tokens)} tokens, {_calls(booked)}",
            "booked",
            f"the ledger at {booked.upstream}, {booked.days_words}, {rounded(booked.hours)} hours; "
            f"{percent(costs.rows[-1].usage.share)} of the tokens written that the knee makes",
        )
    volume = costs.volume_tokens
    if volume is not None:
        typed = choices.volume_tokens is not None
        yield Fact(
            "Tokens a month",
            tokens(volume),
            "typed" if typed else "computed",
            "typed on the page" if typed else "730 hours as those of the ledger: an extrapolation",
        )
    if choices.api:
        price = costs.api_per_mtok
        yield Fact(
            f"{_named(choices.api)}, a million tokens",
            f"{money(price)} in this mix",
            "list",
            _dated(choices.api.source, choices.api.as_of, today),
        )


def _measured_facts(measured: Measured) -> Iterator[Fact]:
    test = measured.test
    when = test.finished_at or test.created_at
    failed = f", {measured.failed} failed" if measured.failed else ", none failed"
    run = f"load test “{_short(test.name)}” of {day(when)}, {str(test.id)[:8]}"
    yield Fact(
        "Highest load that keeps the promises",
        load_words(measured.load, measured.knee.arrivals or measured.plan.arrivals),
        "measured",
        f"{run}: {measured.knee.repeats} repeats, {measured.requests:,} requests there{failed}",
    )
    yield Fact(
        "Tokens a second there, read / written",
        f"{rounded(measured.made.input_per_s)} / {rounded(measured.made.output_per_s)}",
        "measured",
        f"the same test, {_engine(measured)}",
    )


def _engine(measured: Measured) -> str:
    conditions = measured.test.conditions
    names = ("engine", "engine_version", "precision", "context_policy")
    words = [str(conditions[name]) for name in names if conditions.get(name)]
    return ", ".join(words)[:120] or "engine not described"


def _assumptions(costs: Costs) -> Iterator[str]:
    choices, mix = costs.choices, costs.mix
    measured = choices.measured
    yield (
        f"The mix: {percent(mix.input_share)} of tokens read, {percent(mix.cached_share)} of these "
        f"from a prompt cache, as in {mix.origin}."
    )
    if costs.mix_note:
        yield costs.mix_note
    yield f"The machine is paid for all 730 hours of a month, and {percent(choices.busy)} busy."
    if choices.shared_micros or choices.marginal_micros_per_mtok:
        yield (
            f"Beside the machines {money(choices.shared_micros)} a month, and "
            f"{money(choices.marginal_micros_per_mtok)} for each million tokens (typed)."
        )
    else:
        yield "Nothing for people, storage, traffic or a spare machine: none was typed."
    yield "Several machines make several times as much: one was measured, more are extrapolated."
    if choices.volume_tokens is None and costs.booked:
        yield (
            f"The month goes on as {costs.booked.days_words} did: an extrapolation from "
            f"{rounded(costs.booked.hours)} hours."
        )
    if measured.at_most:
        yield f"The knee may lie higher, so that costs are upper bounds: {measured.at_most}."
    if choices.hour.warning:
        yield f"{choices.hour.warning} Nothing was measured on what is priced."
    if choices.api and not is_comparable(costs):
        yield (
            f"Nobody has said that {choices.api.model} answers as well as "
            f"{measured.model or 'the model'}: prices are compared, not answers."
        )


def _by_use(costs: Costs) -> str:
    """ "$0.585 at 100 %, $1.46 at 40 %, …"; the ledger's own use last, where it is known."""
    known = [(row, row.all_on_output) for row in costs.rows]
    return ", ".join(
        f"{money(cost.value)} at {percent(row.usage.share)}"
        + (", the ledger’s" if row.usage.is_ledger else "")
        for row, cost in known
        if cost is not None
    )


def _calls(booked: Booked) -> str:
    calls = booked.sums.calls
    return "1 call" if calls == 1 else f"{calls:,} calls"


def _named(price: ListPrice) -> str:
    return f"{_short(price.provider)} ({_short(price.model)})"


def _dated(source: str, as_of: date, today: date) -> str:
    age = age_days(as_of, today)
    old = f", {age} days old: check it" if age > OLD_DAYS else ""
    return f"{source[:100]}, {day(as_of)}{old}"


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
