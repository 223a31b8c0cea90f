"""Speculative decoding: a small model guesses some tokens ahead, the large one checks them at once.

Leviathan et al. 2023 (Fast Inference from Transformers via Speculative Decoding), extended by what
a check costs where multiplying is the limit: with a guesses of g accepted,

    (1 - a^(g + 1)) / (1 - a) / (g × c + v)

times as fast, where c is a step of the draft over a step of the model, and v a step that checks
g + 1 tokens of each sequence over one that writes one. It reads the same bytes and multiplies
g + 1 times as much: v = max(1, (g + 1) × x) / max(1, x), x being intensity over ridge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from apps.capacity.arithmetic.decoding import decode
from apps.capacity.arithmetic.derived import Derived, figure, given
from apps.capacity.arithmetic.memory import weight_bytes
from apps.capacity.planning.gaining import Gain
from apps.capacity.planning.inputs import Draft, PlanInputs
from apps.capacity.planning.saying import say
from apps.capacity.planning.serving import Load
from apps.capacity.planning.sizing import deployment_of

_MOST_BATCH = 4096  # more sequences at a time than engines take
_USUAL_GUESSES = 4  # where no draft is named


@dataclass(frozen=True, slots=True)
class _Costs:
    """Of guessing `guesses` tokens, in steps of the model."""

    guesses: int
    draft: float  # c
    check: float  # v

    def speed(self, acceptance: float) -> float:
        kept = (
            self.guesses + 1.0
            if acceptance >= 1
            else (1 - acceptance ** (self.guesses + 1)) / (1 - acceptance)
        )
        return float(kept / (self.guesses * self.draft + self.check))

    @property
    def least_acceptance(self) -> float | None:
        """Where it breaks even, for the speed grows with the acceptance; None: it never does."""
        if self.speed(1.0) <= 1:
            return None
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.speed(middle) < 1 else (low, middle)
        return high


def speculation(inputs: PlanInputs, load: Load) -> Gain:
    """Computed where a draft and its measured acceptance are given; else what must be measured."""
    batch, draft = max(1, load.batch), inputs.draft
    guesses = draft.tokens if draft else _USUAL_GUESSES
    free = _free_batch(inputs, guesses + 1)
    costs = _costs(inputs, draft, batch) if draft else None
    return Gain(
        name="Speculative decoding",
        what="A small model guesses some tokens ahead, and the large one checks them in one step.",
        value=_value(draft, costs) if draft and costs else None,
        verdict=f"{_needed(draft, costs)}{_room(guesses + 1, batch, free)}",
        backfires="Checking multiplies more: at large batches, where that is the limit, it makes "
        "everything slower. Guesses on unusual text (another language, code) are often wrong."
        + (
            " A mixture of experts reads more experts for the checks."
            if inputs.shape.experts
            else ""
        )
        + _memory(inputs),
        reverses=_reverses(costs, batch, free),
    )


def _value(draft: Draft, costs: _Costs) -> Derived | None:
    accepted = draft.acceptance
    if accepted is None:
        return _break_even(costs, draft)
    return Derived(
        costs.speed(accepted),
        "times as fast",
        "(1 − a^(g + 1)) ÷ (1 − a) ÷ (g × c + v) = "
        f"(1 − {accepted:g}^{costs.guesses + 1}) ÷ (1 − {accepted:g}) ÷ "
        f"({costs.guesses} × {figure(costs.draft)} + {figure(costs.check)})",
        (
            given("a, guesses that are accepted", f"{accepted:.0%}", "", "typed"),
            given("g, guesses at a time", costs.guesses, note="typed"),
            given(
                "c, a step of the draft ÷ a step of the model", costs.draft, "", draft.shape.name
            ),
            given("v, a step that checks ÷ a step that writes", costs.check),
        ),
        "Leviathan et al. 2023, with what a check costs. Where all is accepted, g + 1 stands in "
        "place of the first quotient.",
        "at most",
    )


def _break_even(costs: _Costs, draft: Draft) -> Derived | None:
    least = costs.least_acceptance
    if least is None:
        return None
    return Derived(
        100 * least,
        "% of guesses must be right",
        "the a at which (1 − a^(g + 1)) ÷ (1 − a) = g × c + v = "
        f"{costs.guesses} × {figure(costs.draft)} + {figure(costs.check)}",
        (
            given("g, guesses at a time", costs.guesses, note="typed"),
            given(
                "c, a step of the draft ÷ a step of the model", costs.draft, "", draft.shape.name
            ),
            given("v, a step that checks ÷ a step that writes", costs.check),
        ),
        "Leviathan et al. 2023, with what a check costs. With fewer, answers get slower.",
        "at least",
    )


def _needed(draft: Draft | None, costs: _Costs | None) -> str:
    if draft is None or costs is None:
        return "Measure: name a draft model and the share of its guesses that is accepted. "
    least = costs.least_acceptance
    if least is None:
        return "Even if every guess were right it would make answers slower here. "
    if draft.acceptance is None:
        return f"Measure the acceptance: below {least:.0%} it makes answers slower. "
    return f"Below an acceptance of {least:.0%} it makes answers slower. "


def _room(checked: int, batch: int, free: int | None) -> str:
    """Whether checks come free at the planned batch."""
    if free is None:
        return "Reading memory limits every batch, so that the checks come free."
    words = f"{checked} tokens of each answer a step reach the chip's ridge (step 2) at a batch of"
    if batch < free:
        return f"The checks come free at the planned batch of {batch}: {words} {free:,}."
    return f"The checks cost time at the planned batch of {batch}: {words} {free:,}."


def _reverses(costs: _Costs | None, batch: int, free: int | None) -> str:
    least = costs.least_acceptance if costs else None
    found = [f"An acceptance below {least:.0%}." if least else ""]
    if free is not None and batch < free:
        found.append(f"A batch of {free:,} or more, where the checks begin to cost time.")
    elif free is not None and free > 1:
        found.append(f"A batch below {free:,}, where the checks come free.")
    return " ".join(each for each in found if each) or (
        "An acceptance, measured on your own questions, that is too low."
    )


def _memory(inputs: PlanInputs) -> str:
    if inputs.draft is None:
        return " The draft model takes memory from sessions."
    size = weight_bytes(inputs.draft.shape, inputs.precision)
    return f" The draft model's weights take {say(size)} from sessions, and its KV cache more."


def _costs(inputs: PlanInputs, draft: Draft, batch: int) -> _Costs:
    context = round(inputs.demand.held_tokens)
    drafting = deployment_of(replace(inputs, shape=draft.shape))
    small = decode(drafting, batch=batch, context_tokens=context)
    large = decode(deployment_of(inputs), batch=batch, context_tokens=context)
    x = large.intensity.value / large.ridge.value
    return _Costs(
        draft.tokens,
        small.step_ms.value / large.step_ms.value,
        max(1.0, (draft.tokens + 1) * x) / max(1.0, x),
    )


def _free_batch(inputs: PlanInputs, checked: int) -> int | None:
    """The least batch whose operations for each byte, `checked` times, reach the chip's ridge."""
    deployment, context = deployment_of(inputs), round(inputs.demand.held_tokens)

    def is_free(batch: int) -> bool:
        found = decode(deployment, batch=batch, context_tokens=context)
        return found.intensity.value * checked < found.ridge.value

    low, high = 0, 1
    while is_free(high):
        low, high = high, high * 2
        if high > _MOST_BATCH:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_free(middle) else (low, middle)
    return high
