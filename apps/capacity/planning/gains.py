"""Step 4, gains: what each known technique would bring for these inputs, and when it backfires.

A factor is computed where a formula is honest; where it depends on what nobody has measured here,
the gain says "measure". None is a maker's promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from apps.capacity.arithmetic.decoding import decode
from apps.capacity.arithmetic.derived import Derived, figure, given, quantity
from apps.capacity.arithmetic.fitting import fit
from apps.capacity.arithmetic.memory import kv_bytes
from apps.capacity.arithmetic.prefilling import prefill
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.saying import digits, say_ms
from apps.capacity.planning.serving import Load, serve
from apps.capacity.planning.sizing import deployment_of

_MOST_BATCH = 4096  # more sequences at a time than engines take
_BLOCK_TOKENS = 16  # vLLM's blocks of the KV cache, its default


@dataclass(frozen=True, slots=True)
class Gain:
    """One technique. `value` None: only a measurement tells."""

    name: str
    what: str  # it does, in plain words
    value: Derived | None
    verdict: str  # what it means for this plan
    backfires: str
    reverses: str  # what would turn the verdict round, with its threshold


def gains_of(inputs: PlanInputs, load: Load) -> list[Gain]:
    """Of each technique; none where the model does not fit."""
    if load.memory_batch < 1:
        return []
    each: tuple[Callable[[PlanInputs, Load], Gain], ...] = (
        _batching,
        _paging,
        _prefixes,
        _speculation,
        _disaggregation,
    )
    return [gain(inputs, load) for gain in each]


def _batching(inputs: PlanInputs, load: Load) -> Gain:
    """Continuous against one request at a time; and against batches that wait for the longest."""
    alone = serve(replace(inputs, assumptions=replace(inputs.assumptions, most_batch=1)))
    one, many = alone.per_s.value, load.per_s.value
    output = inputs.demand.output
    waiting = output.p95 / output.mean
    value = None
    if one > 0:
        value = Derived(
            many / one,
            "times as many requests",
            f"requests a second at a batch of {figure(load.batch)} ÷ one at a time = "
            f"{figure(many)} ÷ {figure(one)}",
            (
                given("at that batch", load.per_s.text, note=load.per_s.formula),
                given("one at a time", alone.per_s.text, note=alone.per_s.formula),
            ),
        )
    return Gain(
        "Continuous batching",
        "Answers are written side by side, and a new request joins as soon as another has ended.",
        value,
        "Every engine that is meant for serving does it. Batches that wait for their longest "
        f"answer would carry about {waiting:.1f} times less: the longest of twenty answers has "
        f"{digits(output.p95)} tokens where the mean has {digits(output.mean)}.",
        "Each answer is written more slowly: a token every "
        f"{say_ms(load.tpot_ms.value)} instead of {say_ms(alone.tpot_ms.value)}. "
        "A long prompt that joins halts the others while it is read, unless the engine reads "
        "prompts in slices.",
        _batching_reverses(alone, output.mean),
    )


def _batching_reverses(alone: Load, output_mean: float) -> str:
    stay_s = (alone.prefill_ms.value + output_mean * alone.tpot_ms.value) / 1000
    return (
        f"Fewer than {digits(60 / stay_s)} requests a minute: then the next comes when "
        "the last has ended, and there is nothing to do side by side."
    )


def _paging(inputs: PlanInputs, load: Load) -> Gain:
    """Blocks as they are needed, against room for the whole context reserved at the begin."""
    deployment, demand = deployment_of(inputs), inputs.demand
    reserved = fit(deployment, inputs.context_tokens).sessions.value / deployment.copies
    held = demand.held_tokens + _BLOCK_TOKENS / 2
    paged = fit(deployment, 1).cached_tokens.value / deployment.copies / held
    value = Derived(
        paged / reserved,
        "times as many requests in memory",
        "cached tokens ÷ (mean request + half a block) ÷ sessions with all their context reserved "
        f"= {figure(paged * held)} ÷ {figure(held)} ÷ {figure(reserved)}",
        (
            given("mean request", demand.held_tokens, "tokens", "prompt + half the output"),
            given("a block", _BLOCK_TOKENS, "tokens", "vLLM's default"),
            given("context reserved", inputs.context_tokens, "tokens"),
        ),
        "",
        "at most",
    )
    is_bound = load.limit == "memory"
    return Gain(
        "Paged KV cache",
        "Memory of a session is given in small blocks as it grows, not all at once.",
        value,
        "Memory is what limits this plan, so that it counts in full."
        if is_bound
        else "Memory is not what limits this plan: "
        f"{figure(load.memory_batch)} requests fit, and {figure(load.batch)} are planned.",
        "Where sessions really fill their context nothing is gained. When blocks run out, an "
        "engine throws a session out and reads its prompt again: latency jumps near full memory.",
        f"Sessions that hold more than {figure(inputs.context_tokens)} tokens on average.",
    )


def _prefixes(inputs: PlanInputs, load: Load) -> Gain:
    demand = inputs.demand
    without = serve(replace(inputs, demand=replace(demand, prefix_reuse=0.0)))
    value = None
    if demand.prefix_reuse > 0 and without.per_s.value > 0:
        value = Derived(
            load.per_s.value / without.per_s.value,
            "times as many requests",
            "requests a second with the reuse ÷ without = "
            f"{figure(load.per_s.value)} ÷ {figure(without.per_s.value)}",
            (
                given(
                    "of the prompts' tokens, reused",
                    f"{demand.prefix_reuse:.1%}",
                    "",
                    demand.origin,
                ),
                given("with it", load.per_s.text, note=load.per_s.formula),
                given("without", without.per_s.text, note=without.per_s.formula),
            ),
        )
    most = load.prefill_share.value if demand.prefix_reuse == 0 else without.prefill_share.value
    return Gain(
        "Prefix cache",
        "What many prompts begin with alike (instructions, an ongoing conversation) is read once.",
        value,
        f"It can save no more than what reading prompts takes: {most:.0f} % of a machine's time "
        "here."
        + ("" if demand.prefix_reuse else " No reuse was given: measure it, see the ledger."),
        "With unique prompts it only takes memory from sessions. Text that changes at the front of "
        "a prompt (a date, a person's name, passages before the instructions) spoils it. Between "
        "tenants, response times tell what others asked: keep their prefixes apart.",
        "Reuse of less than 5 %: then the time saved is below "
        f"{max(most * 0.05, 0.1):.1f} % of a machine's.",
    )


def _speculation(inputs: PlanInputs, load: Load) -> Gain:
    """Leviathan et al. 2023: (1 - a^(g+1)) / ((1 - a) (g c + 1)) times as fast, where a step that
    checks g + 1 tokens takes no longer than one that writes one."""
    draft = inputs.draft
    what = "A small model guesses some tokens ahead, and the large one checks them in one step."
    backfires = (
        "Checking costs multiplications: at large batches, where those are the limit, it makes "
        "everything slower. Guesses on unusual text (another language, code) are often wrong. The "
        "draft model takes memory."
    )
    room = _room_for_guesses(inputs, load)
    if draft is None:
        return Gain(
            "Speculative decoding",
            what,
            None,
            f"Measure: name a draft model and the share of its guesses that is accepted. {room}",
            backfires,
            "An acceptance that has been measured on one's own questions.",
        )
    cost = _draft_cost(inputs, load)
    needed = _least_acceptance(draft.tokens, cost)
    if draft.acceptance is None:
        return Gain(
            "Speculative decoding",
            what,
            None,
            f"Measure the acceptance: below {needed:.0%} it makes answers slower. {room}",
            backfires,
            f"A measured acceptance below {needed:.0%}.",
        )
    speed = _speed(draft.acceptance, draft.tokens, cost)
    value = Derived(
        speed,
        "times as fast",
        "(1 − a^(g + 1)) ÷ ((1 − a) × (g × c + 1)) = "
        f"(1 − {draft.acceptance:g}^{draft.tokens + 1}) ÷ ((1 − {draft.acceptance:g}) × "
        f"({draft.tokens} × {figure(cost)} + 1))",
        (
            given("a, guesses that are accepted", f"{draft.acceptance:.0%}", "", "typed"),
            given("g, guesses at a time", draft.tokens, note="typed"),
            given("c, a step of the draft ÷ a step of the model", cost, note=draft.shape.name),
        ),
        "Leviathan et al. 2023. Holds where a step that checks several tokens takes no longer than "
        "one that writes one.",
        "at most",
    )
    return Gain(
        "Speculative decoding",
        what,
        value,
        room,
        backfires,
        f"An acceptance below {needed:.0%}, or a batch that leaves no room for the checks.",
    )


def _room_for_guesses(inputs: PlanInputs, load: Load) -> str:
    """Whether the checks come free at the planned batch: they multiply more, and read no more."""
    guesses, batch = (inputs.draft.tokens if inputs.draft else 4) + 1, max(1, load.batch)
    most = _free_batch(inputs, guesses)
    mixture = " A mixture of experts reads more experts for them." if inputs.shape.experts else ""
    if most is None:
        return f"Reading memory limits every batch, so that the checks come free.{mixture}"
    words = f"{guesses} tokens of each sequence a step reach the limit of multiplying at a batch of"
    if batch < most:
        return f"The checks come free at the planned batch of {batch}: {words} {most:,}.{mixture}"
    return f"It backfires at the planned batch of {batch}: {words} {most:,}.{mixture}"


def _free_batch(inputs: PlanInputs, guesses: int) -> int | None:
    """The least batch whose operations for each byte, `guesses` times, reach the chip's ridge."""
    deployment, context = deployment_of(inputs), round(inputs.demand.held_tokens)

    def is_free(batch: int) -> bool:
        found = decode(deployment, batch=batch, context_tokens=context)
        return found.intensity.value * guesses < found.ridge.value

    low, high = 0, 1
    while is_free(high):
        low, high = high, high * 2
        if high > _MOST_BATCH:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_free(middle) else (low, middle)
    return high


def _draft_cost(inputs: PlanInputs, load: Load) -> float:
    """A step of the draft model, one token of each sequence, over a step of the model."""
    if inputs.draft is None:
        return 0.0
    batch, context = max(1, load.batch), round(inputs.demand.held_tokens)
    drafting = deployment_of(replace(inputs, shape=inputs.draft.shape))
    small = decode(drafting, batch=batch, context_tokens=context).step_ms.value
    large = decode(deployment_of(inputs), batch=batch, context_tokens=context).step_ms.value
    return small / large


def _speed(acceptance: float, guesses: int, cost: float) -> float:
    if acceptance >= 1:
        return (guesses + 1) / (guesses * cost + 1)
    kept: float = (1 - acceptance ** (guesses + 1)) / (1 - acceptance)
    return kept / (guesses * cost + 1)


def _least_acceptance(guesses: int, cost: float) -> float:
    """Where it breaks even; the speed grows with the acceptance. 1: it never does."""
    if _speed(1.0, guesses, cost) <= 1:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _speed(middle, guesses, cost) < 1 else (low, middle)
    return high


def _disaggregation(inputs: PlanInputs, load: Load) -> Gain:
    """Some machines read prompts only, others write only, and KV travels between them."""
    deployment, demand = deployment_of(inputs), inputs.demand
    size = kv_bytes(deployment.shape, deployment.kv, max(1, round(demand.prompt.mean)))
    link_gb_s = inputs.assumptions.link_gb_s
    travel = say_ms(size.value / (link_gb_s * 1e6))
    slower = load.tpot_ms.value / load.step_ms.value
    value = Derived(
        slower,
        "times as steady a token",
        "time a token with others' prompts in between ÷ without = "
        f"{quantity(load.tpot_ms.value, 'ms')} ÷ {quantity(load.step_ms.value, 'ms')}",
        (given("time a token", load.tpot_ms.text, note=load.tpot_ms.formula),),
        "Of the mean time a token; the worst gaps, which a long prompt tears, shrink more: measure "
        "them.",
        "at most",
    )
    alone = prefill(
        deployment,
        tokens=max(1, round(demand.prompt.p95)),
        utilisation=inputs.assumptions.prefill_efficiency,
    ).floor_ms
    return Gain(
        "Reading and writing on machines apart",
        "Some machines only read prompts and others only write answers, so that neither halts the "
        "other.",
        value,
        f"A long prompt halts the answers beside it for {say_ms(alone.value)}, unless it is "
        "read in slices, which is the cheaper cure: try that first. Handing over a prompt's KV "
        f"takes {travel} at {digits(link_gb_s)} GB/s.",
        "With few machines one kind stands idle while the other is full. Slow links: the handover "
        "is added to every first token. Short prompts: nothing to gain.",
        _disaggregation_reverses(load, size.value),
    )


def _disaggregation_reverses(load: Load, kv_bytes_of_prompt: float) -> str:
    prefill_s = load.prefill_ms.value / 1000
    slow = kv_bytes_of_prompt / max(prefill_s, 1e-9) / 1e9
    return (
        f"A link slower than {digits(slow)} GB/s: then handing over takes longer than reading the "
        "prompt again; or slices of prefill that keep the promise on one machine."
    )
