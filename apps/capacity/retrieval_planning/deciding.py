"""Whether one PostgreSQL keeps the promise, what is next where it doesn't, and what would reverse
that. Each threshold is computed from the plan; none is a rule of thumb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from apps.capacity.arithmetic.derived import figure, quantity
from apps.capacity.retrieval_planning.planning import Plan

Choice = Literal["unknown", "stay", "memory", "replicas", "citus", "dedicated"]

TITLES: dict[Choice, str] = {
    "unknown": "Not to be said yet",
    "stay": "One PostgreSQL keeps the promise",
    "memory": "One PostgreSQL with more memory",
    "replicas": "Read replicas",
    "citus": "Spread organisations over machines (Citus)",
    "dedicated": "Another way to search the largest organisation",
}


@dataclass(frozen=True)
class Option:
    """One way to go, when it is called for, and whether this plan calls for it."""

    choice: Choice
    when: str
    is_called_for: bool


@dataclass(frozen=True)
class Decision:
    choice: Choice
    reasons: tuple[str, ...]
    reversed_by: tuple[str, ...]
    options: tuple[Option, ...]

    is_extrapolated: bool = False

    @property
    def title(self) -> str:
        """What to do, and whether that is drawn beyond what was measured."""
        return TITLES[self.choice] + (", by extrapolation" if self.is_extrapolated else "")


def decide(plan: Plan) -> Decision:
    """What keeps the promise. Of several that are called for, the last: it includes the others."""
    options = (_replicas(plan), _memory(plan), _citus(plan), _dedicated(plan))
    if plan.latency is None or plan.rate is None:
        return Decision(
            "unknown",
            (
                "Nothing was measured at these dimensions, so no time can be told.",
                *_of_memory(plan),
            ),
            ("A measurement: manage.py measure-search.",),
            options,
        )
    if plan.latency.trust == "beyond":
        line = plan.latency.line
        words = (
            f"{plan.wish.largest:,} passages are more than ten times the largest measured size "
            f"({line.largest:,}): too far to draw a line."
        )
        again = f"A measurement with --sizes up to {max(1, plan.wish.largest // 10):,} or more."
        return Decision("unknown", (words, *_of_memory(plan)), (again,), options)
    called = [option.choice for option in reversed(options) if option.is_called_for]
    choice: Choice = called[0] if called else "stay"
    return Decision(
        choice,
        _reasons(plan),
        _reversals(plan),
        options,
        is_extrapolated=plan.latency.trust != "measured",
    )


def _of_memory(plan: Plan) -> tuple[str, ...]:
    need, have = plan.memory.working_set, plan.memory.usable
    words = "fits" if plan.memory.fits else "does not fit"
    return (f"What searches read, {need.text}, {words} into the {have.text} that are there.",)


def _reasons(plan: Plan) -> tuple[str, ...]:
    latency, rate = plan.latency, plan.rate
    if latency is None or rate is None:
        return _of_memory(plan)
    keeps = {"yes": "keeps", "perhaps": "may or may not keep", "no": "breaks"}[latency.keeps]
    way = "exactly" if plan.way == "exact" else "through HNSW"
    words = [
        f"The largest organisation, searched {way}, {keeps} the promise of "
        f"{latency.promise_ms:g} ms: {latency.ms.text} ({latency.low_ms:.3g} to "
        f"{latency.high_ms:.3g} ms), {_trust(plan)}.",
        *_of_memory(plan),
    ]
    if rate.most.value > 0:
        words.append(
            f"One machine carries {figure(round(rate.most.value, 1))} searches a second within "
            f"the promise; {figure(rate.per_s)} are wished for."
        )
    if plan.recall is not None and plan.recall.keeps != "yes":
        words.append(f"Recall: {plan.recall.words}")
    return tuple(words)


def _trust(plan: Plan) -> str:
    if plan.latency is None or plan.latency.trust == "measured":
        return "within what was measured"
    return "extrapolated, not measured"


def _reversals(plan: Plan) -> tuple[str, ...]:
    latency, rate = plan.latency, plan.rate
    words = []
    if latency is not None:
        crossing = latency.crossing
        if crossing.at is not None:
            # Either end of the band may be beyond what is looked at.
            low = figure(round(crossing.earliest or 1))
            high = "any size" if crossing.latest is None else figure(round(crossing.latest))
            far = " (far beyond what was measured)" if crossing.at > latency.line.trusted_to else ""
            words.append(
                f"The largest organisation passing {figure(round(crossing.at))} passages{far}, "
                f"where the line meets the promise; by its band between {low} and {high}."
            )
    each = sum(part.each.value for part in plan.memory.parts if part.in_memory)
    most = int(plan.memory.usable.value / each) if each else 0
    words.append(f"More or fewer than {most:,} passages in all, where the memory is full.")
    if rate is not None and rate.most.value > 0:
        words.append(
            f"More or fewer than {figure(round(rate.most.value, 1))} searches a second at the "
            "busiest, for each machine."
        )
    words.append("A new measurement on the machine that it will run on.")
    return tuple(words)


def _memory(plan: Plan) -> Option:
    need = plan.memory.working_set
    machine = plan.wish.memory_bytes * need.value / max(1.0, plan.memory.usable.value)
    return Option(
        "memory",
        f"when what searches read ({need.text}) does not fit into "
        f"{plan.memory.usable.text}: it would with {quantity(machine, 'bytes')} of memory",
        not plan.memory.fits and machine <= MOST_MEMORY_BYTES,
    )


# Of one machine that is commonly rented: 1.5 TB. Above, splitting is the way.
MOST_MEMORY_BYTES = 1_500 * 10**9


def _replicas(plan: Plan) -> Option:
    rate = plan.rate
    machines = rate.machines if rate else None
    wished = f"{figure(plan.wish.per_s)} searches a second"
    if rate is None or machines is None:
        when = (
            f"when one machine's cores do not carry {wished}, and a search alone keeps the promise"
        )
        return Option("replicas", when, False)
    most = figure(round(rate.most.value, 1))
    when = (
        f"when one machine's cores do not carry {wished}: it carries {most}, so {machines} "
        f"machines of {plan.wish.cores} cores would"
    )
    return Option("replicas", when, machines > 1 + plan.wish.replicas)


def _citus(plan: Plan) -> Option:
    need, have = plan.memory.working_set.value, plan.memory.usable.value
    each = sum(part.each.value for part in plan.memory.parts if part.in_memory)
    largest = each * plan.wish.largest
    machines = -(-need // have) if have else 0
    when = (
        f"when no one machine has the memory (over {quantity(MOST_MEMORY_BYTES, 'bytes')}), and "
        f"the largest organisation ({quantity(largest, 'bytes')}) fits on one: rows are "
        f"distributed by organisation, over {int(machines)} like this one"
    )
    too_much = need > MOST_MEMORY_BYTES * plan.wish.memory_share
    return Option("citus", when, too_much and largest <= have)


def _dedicated(plan: Plan) -> Option:
    latency = plan.latency
    words = (
        "when a search of the largest organisation alone breaks the promise, however many "
        "machines there are: fewer dimensions, binary storage or an HNSW index first; then a "
        "vector database that splits one organisation over machines"
    )
    if latency is None:
        return Option("dedicated", words, False)
    at = latency.crossing.at
    where = "at no size looked at" if at is None else f"at {figure(round(at))} passages"
    return Option("dedicated", f"{words}. Here: {where}", latency.keeps == "no")
