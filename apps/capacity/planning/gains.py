"""Step 4, gains: what each known technique would bring for these inputs, and when it backfires.

A factor is computed where a formula is honest; where it depends on what nobody has measured here,
the gain says "measure". None is a maker's promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from apps.capacity.arithmetic.derived import Derived, figure, given, quantity
from apps.capacity.arithmetic.fitting import fit
from apps.capacity.arithmetic.memory import kv_bytes
from apps.capacity.arithmetic.prefilling import prefill
from apps.capacity.planning.gaining import Gain
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.saying import digits, say_ms
from apps.capacity.planning.serving import Load, serve
from apps.capacity.planning.sizing import deployment_of
from apps.capacity.planning.speculating import speculation

_BLOCK_TOKENS = 16  # vLLM's blocks of the KV cache, its default


def gains_of(inputs: PlanInputs, load: Load) -> list[Gain]:
    """Of each technique; none where the model does not fit."""
    if load.memory_batch < 1:
        return []
    each: tuple[Callable[[PlanInputs, Load], Gain], ...] = (
        _batching,
        _paging,
        _prefixes,
        speculation,
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
        f"Fewer than {digits(60 / stay_s)} requests a minute (60 s ÷ the time of one alone): then "
        "the next comes when the last has ended, and there is nothing to do side by side."
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
        f"A link slower than {digits(slow)} GB/s (KV of a mean prompt ÷ the time to read it): then "
        "handing over takes longer than reading the prompt again. Or slices of prefill "
        "that keep the promise on one machine."
    )
