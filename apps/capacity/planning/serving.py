"""Step 3, what one machine carries within the promises, and how many of them the peak takes.

Of one copy of the model that reads prompts and writes answers on the same GPUs:

- a request costs its prefill S, and its share of the steps that write its output, O × t(B) / B
- so that a copy busy for a share u of the time carries r = u / (S + O × t(B) / B) requests a second
- and a reader waits t(B) / (1 - r × S) for a token, for prefills of others come between.

t(B) is the decode step at a batch of B, S and t are the roofline's bounds over the efficiencies
assumed. Queueing is left out: u is held below 1 for it, and only a load test tells what it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from apps.capacity.arithmetic.decoding import decode
from apps.capacity.arithmetic.derived import Derived, figure, given, quantity
from apps.capacity.arithmetic.fitting import fit
from apps.capacity.arithmetic.prefilling import prefill
from apps.capacity.arithmetic.shapes import Deployment
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.sizing import deployment_of

Limit = Literal["memory", "engine", "tpot", "e2e", "ttft"]


@dataclass(frozen=True, slots=True)
class Load:
    """One machine at the batch that memory and promises allow. `batch` is of each copy."""

    batch: int  # 0: not even one request at a time keeps the promises, or fits
    limit: Limit  # what keeps the batch from growing; of 0, what is broken
    memory_batch: int  # as many as the KV cache holds
    prefill_ms: Derived
    step_ms: Derived
    tpot_ms: Derived
    ttft_ms: Derived  # of a long prompt
    e2e_ms: Derived  # of a long request
    cost_ms: Derived  # of a request: the time of the machine that it takes
    per_s: Derived  # requests, of the whole machine
    output_per_s: Derived
    input_per_s: Derived
    prefill_share: Derived  # of the busy time

    @property
    def carries(self) -> bool:
        return self.batch > 0


class Copy:
    """One copy of the model, asked for its times by batch."""

    def __init__(self, inputs: PlanInputs) -> None:
        self.inputs = inputs
        self.deployment: Deployment = deployment_of(inputs)
        self.demand = inputs.demand
        self.assumed = inputs.assumptions
        self._steps: dict[int, float] = {}

    @cached_property
    def memory_batch(self) -> int:
        """Requests of the mean size that the KV cache holds; 0 where no session fits."""
        found = fit(self.deployment, self.inputs.context_tokens)
        if not found.fits:
            return 0
        tokens = found.cached_tokens.value / self.deployment.copies
        return math.floor(tokens / max(1.0, self.demand.held_tokens))

    @cached_property
    def prefill_s(self) -> float:
        """Of a mean prompt, but for what is in the prefix cache."""
        return self._prefill_s(self.demand.prompt.mean)

    @cached_property
    def long_prefill_s(self) -> float:
        return self._prefill_s(self.demand.prompt.p95)

    def _prefill_s(self, tokens: float) -> float:
        floor = prefill(
            self.deployment,
            tokens=new_tokens(tokens, self.demand.prefix_reuse),
            utilisation=self.assumed.prefill_efficiency,
        )
        return floor.floor_ms.value / 1000

    def step_s(self, batch: int) -> float:
        """Of writing one token of each of `batch` sequences."""
        if batch not in self._steps:
            found = decode(
                self.deployment,
                batch=batch,
                context_tokens=round(self.demand.held_tokens),
                efficiency=self.assumed.decode_efficiency,
            )
            self._steps[batch] = found.step_ms.value / 1000
        return self._steps[batch]

    def cost_s(self, batch: int) -> float:
        """S + O × t(B) / B"""
        return self.prefill_s + self.demand.output.mean * self.step_s(batch) / batch

    def per_s(self, batch: int) -> float:
        return self.assumed.utilisation / self.cost_s(batch)

    def tpot_s(self, batch: int) -> float:
        return self.step_s(batch) / (1 - self.per_s(batch) * self.prefill_s)

    def ttft_s(self, batch: int) -> float:
        """Of a long prompt: its prefill, and the step that was under way."""
        return self.long_prefill_s + self.step_s(batch)

    def e2e_s(self, batch: int) -> float:
        return self.ttft_s(batch) + self.demand.output.p95 * self.tpot_s(batch)

    def broken(self, batch: int) -> Limit | None:
        """The first promise that this batch does not keep."""
        promised = self.inputs.promises
        times: tuple[tuple[Limit, float | None, float], ...] = (
            ("ttft", promised.ttft_ms, self.ttft_s(batch)),
            ("tpot", promised.tpot_ms, self.tpot_s(batch)),
            ("e2e", promised.e2e_ms, self.e2e_s(batch)),
        )
        kept = (name for name, most, time in times if most is not None and time * 1000 > most)
        return next(kept, None)


def new_tokens(tokens: float, reuse: float) -> int:
    """Tokens of a prompt that must be read; at least the last one, which makes the first token."""
    return max(1, round(tokens * (1 - reuse)))


def largest_batch(copy: Copy) -> tuple[int, Limit]:
    """The largest batch that fits and keeps the promises, and what a larger one would break.

    Every time grows with the batch, so that the search may halve.
    """
    most, engine = copy.memory_batch, copy.assumed.most_batch
    if most < 1:
        return 0, "memory"
    limit: Limit = "memory" if most <= engine else "engine"
    most = min(most, engine)
    if copy.broken(most) is None:
        return most, limit
    if broken := copy.broken(1):
        return 0, broken
    kept, lost = 1, most
    while lost - kept > 1:
        middle = (kept + lost) // 2
        kept, lost = (kept, middle) if copy.broken(middle) else (middle, lost)
    return kept, copy.broken(lost) or limit


def serve(inputs: PlanInputs) -> Load:
    """What one machine carries."""
    copy = Copy(inputs)
    batch, limit = largest_batch(copy)
    at = max(batch, 1)  # of times that are shown although they break a promise
    per_s = copy.per_s(at) * copy.deployment.copies if batch else 0.0
    return Load(
        batch=batch,
        limit=limit,
        memory_batch=copy.memory_batch,
        prefill_ms=_prefill(copy),
        step_ms=_step(copy, at),
        tpot_ms=_tpot(copy, at),
        ttft_ms=_ttft(copy, at),
        e2e_ms=_e2e(copy, at),
        cost_ms=_cost(copy, at),
        per_s=_per_s(copy, at, per_s),
        output_per_s=_tokens_per_s(per_s, copy.demand.output.mean, "output"),
        input_per_s=_tokens_per_s(per_s, copy.demand.prompt.mean, "prompt"),
        prefill_share=_prefill_share(copy, at),
    )


def ms(seconds: float) -> str:
    return quantity(seconds * 1000, "ms")


def _prefill(copy: Copy) -> Derived:
    assumed, demand = copy.assumed, copy.demand
    found = prefill(
        copy.deployment,
        tokens=new_tokens(demand.prompt.mean, demand.prefix_reuse),
        utilisation=assumed.prefill_efficiency,
    ).floor_ms
    reuse = given("of the prompt, in the prefix cache", f"{demand.prefix_reuse:.0%}", "", "")
    return Derived(found.value, "ms", found.formula, (*found.inputs, reuse), found.note, "at least")


def _step(copy: Copy, batch: int) -> Derived:
    efficiency = copy.assumed.decode_efficiency
    return decode(
        copy.deployment,
        batch=batch,
        context_tokens=round(copy.demand.held_tokens),
        efficiency=efficiency,
    ).step_ms


def _tpot(copy: Copy, batch: int) -> Derived:
    step, per_s, prefill_s = copy.step_s(batch), copy.per_s(batch), copy.prefill_s
    return Derived(
        copy.tpot_s(batch) * 1000,
        "ms",
        "step ÷ (1 − requests a second of a copy × prefill) = "
        f"{ms(step)} ÷ (1 − {figure(per_s)} × {figure(prefill_s)} s)",
        (given("batch", batch), given("step", ms(step)), given("prefill", ms(prefill_s))),
        "Others' prompts are read in between, which delays every answer under way.",
    )


def _ttft(copy: Copy, batch: int) -> Derived:
    long, step = copy.long_prefill_s, copy.step_s(batch)
    return Derived(
        (long + step) * 1000,
        "ms",
        f"prefill of a long prompt + the step under way = {ms(long)} + {ms(step)}",
        (given("95th percentile of prompts", copy.demand.prompt.p95, "tokens"),),
        "Without waiting in the queue, which a load test measures.",
        "at least",
    )


def _e2e(copy: Copy, batch: int) -> Derived:
    ttft, tpot = copy.ttft_s(batch), copy.tpot_s(batch)
    return Derived(
        copy.e2e_s(batch) * 1000,
        "ms",
        "first token + tokens of a long answer × time a token = "
        f"{ms(ttft)} + {figure(copy.demand.output.p95)} × {ms(tpot)}",
        (given("95th percentile of outputs", copy.demand.output.p95, "tokens"),),
        "",
        "at least",
    )


def _cost(copy: Copy, batch: int) -> Derived:
    step = copy.step_s(batch)
    return Derived(
        copy.cost_s(batch) * 1000,
        "ms",
        "prefill + output tokens × step ÷ batch = "
        f"{ms(copy.prefill_s)} + {figure(copy.demand.output.mean)} × {ms(step)} ÷ {figure(batch)}",
        (
            given("mean output", copy.demand.output.mean, "tokens"),
            given("batch", batch),
            given("step", ms(step)),
        ),
        "A step writes a token of every answer in the batch, so that they share its time.",
        "at least",
    )


def _per_s(copy: Copy, batch: int, per_s: float) -> Derived:
    assumed, copies = copy.assumed, copy.deployment.copies
    return Derived(
        per_s,
        "requests/s",
        "copies × utilisation ÷ time of the machine that a request takes = "
        f"{copies} × {assumed.utilisation:.0%} ÷ {ms(copy.cost_s(batch))}"
        if per_s
        else "none: no batch keeps the promises",
        (
            given("utilisation", f"{assumed.utilisation:.0%}", "", "an assumption"),
            given(
                "share of throughput in prefill",
                f"{assumed.prefill_efficiency:.0%}",
                "",
                "an assumption",
            ),
            given(
                "share of the decode bound", f"{assumed.decode_efficiency:.0%}", "", "an assumption"
            ),
        ),
    )


def _tokens_per_s(per_s: float, tokens: float, kind: str) -> Derived:
    return Derived(
        per_s * tokens,
        "tokens/s",
        f"requests a second × mean {kind} = {figure(per_s)} × {figure(tokens)}",
        (given("requests a second", per_s), given(f"mean {kind}", tokens, "tokens")),
    )


def _prefill_share(copy: Copy, batch: int) -> Derived:
    cost = copy.cost_s(batch)
    return Derived(
        100 * copy.prefill_s / cost,
        "%",
        f"prefill ÷ time of the machine that a request takes = {ms(copy.prefill_s)} ÷ {ms(cost)}",
        (given("prefill", ms(copy.prefill_s)), given("time that a request takes", ms(cost))),
    )
