"""Load tests side by side: what differs, where each one's knee is, and figures at equal loads.

Nothing is called better where the intervals overlap, or where the tests did not do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apps.capacity.showing.conditions import conditions_of
from apps.capacity.showing.rows import Row, Whole
from apps.capacity.showing.spreads import Spread
from apps.capacity.showing.words import (
    ARRIVALS,
    figure,
    promise_words,
    target_words,
    workload_words,
)

LETTERS = "ABCD"
# Of a figure: its name, whether more is better, and how it is said.
_FIGURES = (
    ("First token, p50", "ttft", "p50_ms"),
    ("First token, p95", "ttft", "p95_ms"),
    ("Each token after it, p50", "tpot", "p50_ms"),
    ("Each token after it, p95", "tpot", "p95_ms"),
    ("Whole answer, p95", "e2e", "p95_ms"),
)
_TOKENS = "Output tokens a second"


@dataclass(frozen=True)
class Fact:
    """Something that the tests were told or found, a value each."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class AtLoad:
    """A figure at a load that all tests measured."""

    load: float
    name: str
    spreads: tuple[Spread | None, ...]
    is_time: bool
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """Tests by letters, in the order they were asked for."""

    named: tuple[tuple[str, Whole], ...]
    facts: tuple[Fact, ...]  # those that differ
    same: tuple[Fact, ...]
    figures: tuple[AtLoad, ...]
    incomparable: tuple[str, ...]  # why none may be called better
    knee_verdict: str


def compare_wholes(wholes: Sequence[Whole]) -> Comparison:
    """Two to four tests."""
    named = tuple(zip(LETTERS, wholes, strict=False))
    facts = list(_facts(wholes))
    reasons = tuple(_incomparable(wholes))
    return Comparison(
        named=named,
        facts=tuple(fact for fact in facts if fact.differs),
        same=tuple(fact for fact in facts if not fact.differs),
        figures=tuple(_figures(named, comparable=not reasons)),
        incomparable=reasons,
        knee_verdict=_knees(named, comparable=not reasons),
    )


def _facts(wholes: Sequence[Whole]) -> list[Fact]:
    told = [{each.name: each.value for each in conditions_of(w.test.conditions)} for w in wholes]
    names = dict.fromkeys(name for each in told for name in each)
    facts = [Fact(name, tuple(each.get(name, "–") for each in told)) for name in names]
    return [
        Fact("Target", tuple(target_words(w.target) for w in wholes)),
        *facts,
        Fact("Asked", tuple(workload_words(w.workload) for w in wholes)),
        Fact("Sent", tuple(ARRIVALS.get(w.arrivals, "–") for w in wholes)),
        Fact("Promised", tuple(_promised(w) for w in wholes)),
        Fact("A point lasts", tuple(_lasts(w) for w in wholes)),
        Fact("Repeats", tuple(str(w.plan.repeats) if w.plan else "–" for w in wholes)),
    ]


def _promised(whole: Whole) -> str:
    return (promise_words(whole.plan.promises) if whole.plan else "") or "nothing"


def _lasts(whole: Whole) -> str:
    return f"{figure(whole.plan.bounds.duration_s)} s" if whole.plan else "–"


def _incomparable(wholes: Sequence[Whole]) -> list[str]:
    reasons = []
    if any(w.plan is None or w.workload is None for w in wholes):
        return ["What one of them was to do cannot be read."]
    if len({_asked(w) for w in wholes}) > 1:
        reasons.append("They did not ask the same: lengths differ, or what prompts begin with.")
    if len({w.arrivals for w in wholes}) > 1:
        reasons.append("Their requests did not arrive in the same way, so that loads differ.")
    if any(not point.figures.client.is_trustworthy for w in wholes for point in w.points):
        reasons.append(
            "A load generator was late or busy in one of them: times are partly its own."
        )
    return reasons


def _asked(whole: Whole) -> str:
    """What was asked, without the seed and the words for its origin."""
    left_out = {"seed", "origin"}
    return whole.workload.model_dump_json(exclude=left_out) if whole.workload else ""


def _figures(named: Sequence[tuple[str, Whole]], *, comparable: bool) -> list[AtLoad]:
    found = []
    for row in named[0][1].rows:
        rows = [whole.row_at(row.load) for _, whole in named]
        if not all(rows):
            continue
        each = [r for r in rows if r is not None]
        for name, time, at in _FIGURES:
            spreads = tuple(r.time(time, at) for r in each)
            found.append(_at(row, name, spreads, is_time=True, comparable=comparable))
        tokens = tuple(r.rates["output_per_s"] for r in each)
        found.append(
            _at(row, "Output tokens a second", tokens, is_time=False, comparable=comparable)
        )
    return [each for each in found if any(each.spreads)]


def _at(
    row: Row, name: str, spreads: tuple[Spread | None, ...], *, is_time: bool, comparable: bool
) -> AtLoad:
    verdict = _verdict(spreads, less_is_better=is_time) if comparable else "not comparable"
    return AtLoad(row.load, name, spreads, is_time, verdict)


def _verdict(spreads: Sequence[Spread | None], *, less_is_better: bool) -> str:
    """Which is better beyond chance than all others, or that none is."""
    known = [(spread, letter) for spread, letter in zip(spreads, LETTERS, strict=False) if spread]
    if len(known) < len(spreads):
        return "one has no figure"
    if any(spread.low is None for spread, _ in known):
        return "one repeat alone: no interval"
    ordered = sorted(known, key=lambda each: each[0].value, reverse=not less_is_better)
    (best, letter), *others = ordered
    if any(best.overlaps(other) for other, _ in others):
        return "within chance"
    return f"{letter} is better"


def _knees(named: Sequence[tuple[str, Whole]], *, comparable: bool) -> str:
    if not comparable:
        return "The knees are not compared, for the reasons above."
    if len({_promised(whole) for _, whole in named}) > 1:
        return "The knees are not compared: they are of different promises."
    known: list[tuple[float, float, float, str]] = []
    for letter, whole in named:
        knee: Any = whole.knee
        if knee is None or not knee.found or None in (knee.load, knee.load_low, knee.load_high):
            return f"The knees are not compared: {letter} has none with an interval."
        known.append((knee.load, knee.load_low, knee.load_high, letter))
    known.sort(reverse=True)
    best = known[0]
    if all(best[1] > other[2] for other in known[1:]):
        return (
            f"{best[3]} serves the highest load within the promises: "
            f"{figure(best[0])} against {', '.join(figure(each[0]) for each in known[1:])}, "
            "and the intervals do not overlap."
        )
    return "The knees’ intervals overlap: by these measurements none serves more than the others."
