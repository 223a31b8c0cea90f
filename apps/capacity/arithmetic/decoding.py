"""The ceiling of decode: a step reads the weights and the KV cache of all its sequences."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from apps.capacity.arithmetic.derived import Derived, Input, figure, given
from apps.capacity.arithmetic.memory import (
    MOST_BATCH,
    MOST_TOKENS,
    kv_bytes,
    kv_size,
    read_parameters,
    weight_size,
    weights_read,
)
from apps.capacity.arithmetic.ridge import (
    Bound,
    attention_flops,
    bandwidth,
    left_out,
    ridge,
    throughput,
    uneven,
)
from apps.capacity.arithmetic.shapes import Deployment, real, whole


@dataclass(frozen=True, slots=True)
class Decode:
    """A step that writes one token of each sequence. `batch` is of one copy of the model."""

    bound: Bound
    step_ms: Derived
    per_sequence: Derived  # tokens/s that one reader sees
    total: Derived  # tokens/s of all copies
    intensity: Derived
    ridge: Derived
    # The least batch, at this context, that multiplying limits; None: reading limits every one.
    compute_bound_batch: Derived | None


def decode(
    deployment: Deployment, *, batch: int, context_tokens: int, efficiency: float = 1.0
) -> Decode:
    """The ceiling for `batch` sequences of `context_tokens`; whether they fit is `fit`'s to say.

    step = more of bytes ÷ bandwidth and operations ÷ throughput, of one GPU. `efficiency` is the
    measured share of the ceiling that an engine reaches; 1 leaves the bound.
    """
    whole("batch", batch, 1, MOST_BATCH)
    whole("context_tokens", context_tokens, 0, MOST_TOKENS)
    real("efficiency", efficiency, 0, 1)
    work = _Step(deployment, context_tokens)
    step = _step_ms(work, batch, efficiency)
    return Decode(
        bound=work.bound(batch),
        step_ms=step,
        per_sequence=_per_sequence(step),
        total=_total(deployment, step, batch),
        intensity=_intensity(work, batch),
        ridge=ridge(deployment),
        compute_bound_batch=_turning_point(work),
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a copy at a context, as one of its GPUs sees it."""

    deployment: Deployment
    context_tokens: int

    @property
    def kv(self) -> Fraction:
        """Bytes of one sequence."""
        d = self.deployment
        return Fraction(kv_size(d.shape, d.kv, self.context_tokens), d.kv_ways)

    @property
    def operations(self) -> Fraction:
        """Of one sequence."""
        shape = self.deployment.shape
        each = 2 * shape.active_parameters + attention_flops(shape, self.context_tokens)
        return Fraction(each, self.deployment.ways)

    def weights(self, batch: int) -> Fraction:
        d = self.deployment
        read = weight_size(d.shape, d.precision, read_parameters(d.shape, batch))
        return Fraction(read, d.ways)

    def bytes(self, batch: int) -> Fraction:
        return self.weights(batch) + batch * self.kv

    def reading_s(self, batch: int) -> float:
        return float(self.bytes(batch)) / (self.deployment.chip.bandwidth_gb_s * 1e9)

    def computing_s(self, batch: int) -> float:
        return float(batch * self.operations) / throughput(self.deployment).value

    def bound(self, batch: int) -> Bound:
        return "compute" if self.computing_s(batch) >= self.reading_s(batch) else "memory"


def _step_ms(work: _Step, batch: int, efficiency: float) -> Derived:
    d = work.deployment
    seconds = max(work.reading_s(batch), work.computing_s(batch)) / efficiency
    share = f", ÷ efficiency {efficiency:g}" if efficiency < 1 else ""
    return Derived(
        value=seconds * 1000,
        unit="ms",
        formula=f"{_why(work, batch)}{share}",
        inputs=(*_inputs(work, batch), given("efficiency", efficiency)),
        note=_notes(d, batch),
        bound="at least" if efficiency == 1 else "",
    )


def _notes(deployment: Deployment, batch: int) -> str:
    notes = (
        left_out(deployment),
        uneven(deployment.shape, batch),
        _lookup(deployment),
        throughput(deployment).note,
    )
    return " ".join(note for note in notes if note)


def _why(work: _Step, batch: int) -> str:
    """The formula of what takes longer, with its numbers."""
    d = work.deployment
    if work.bound(batch) == "memory":
        return (
            "(weights read + batch × KV of a sequence) of one GPU ÷ bandwidth = "
            f"({figure(float(work.weights(batch) / 10**9))} + {figure(batch)} × "
            f"{figure(float(work.kv / 10**9))}) GB ÷ {figure(d.chip.bandwidth_gb_s)} GB/s"
        )
    return (
        "batch × (2 × active parameters + attention) of one GPU ÷ throughput = "
        f"{figure(batch)} × {figure(float(work.operations / 10**9))} × 10⁹ ÷ "
        f"{figure(throughput(d).value / 1e12)} × 10¹²"
    )


def _inputs(work: _Step, batch: int) -> tuple[Input, ...]:
    d = work.deployment
    read, kv = (
        weights_read(d.shape, d.precision, batch),
        kv_bytes(d.shape, d.kv, work.context_tokens),
    )
    return (
        given("batch of a copy", batch),
        given("tokens of context, of each sequence", work.context_tokens),
        given("weights read", read.text, note=read.formula),
        given("KV of a sequence", kv.text, note=kv.formula),
        given("active parameters", d.shape.active_parameters, note=d.shape.source),
        given("attention, of a token", attention_flops(d.shape, work.context_tokens), "operations"),
        given("GPUs that share a copy", d.ways, note=f"{d.kv_ways} of them share its KV"),
        bandwidth(d),
        *throughput(d).inputs,
    )


def _lookup(deployment: Deployment) -> str:
    """An untied input embedding is looked up, not read; the usual formula counts it anyway."""
    shape = deployment.shape
    if not shape.vocabulary or shape.tied_embeddings:
        return ""
    share = shape.vocabulary * shape.hidden / shape.active_parameters
    return (
        f"The input embedding, {share:.1%} of the active parameters, is counted as read and "
        "multiplied, as is usual; it is only looked up, so that the true limit lies as much higher."
    )


def _per_sequence(step: Derived) -> Derived:
    return Derived(
        value=1000 / step.value,
        unit="tokens/s",
        formula=f"1,000 ÷ step in ms = 1,000 ÷ {figure(step.value)}",
        inputs=(given("step", step.text, note=step.formula), *step.inputs),
        note=step.note,
        bound=_turned(step),
    )


def _total(deployment: Deployment, step: Derived, batch: int) -> Derived:
    return Derived(
        value=1000 / step.value * batch * deployment.copies,
        unit="tokens/s",
        formula="batch × copies × 1,000 ÷ step in ms = "
        f"{figure(batch)} × {deployment.copies} × 1,000 ÷ {figure(step.value)}",
        inputs=(
            given("copies", deployment.copies, note="each with a batch of its own"),
            given("step", step.text, note=step.formula),
            *step.inputs,
        ),
        note=step.note,
        bound=_turned(step),
    )


def _turned(step: Derived) -> Literal["", "at most"]:
    return "at most" if step.bound else ""


def _intensity(work: _Step, batch: int) -> Derived:
    operations, size = batch * work.operations, work.bytes(batch)
    return Derived(
        value=float(operations / size),
        unit="operations/byte",
        formula="operations ÷ bytes read, of one GPU and one step = "
        f"{figure(float(operations / 10**9))} × 10⁹ ÷ {figure(float(size / 10**9))} GB",
        inputs=_inputs(work, batch),
    )


def _turning_point(work: _Step) -> Derived | None:
    """By bisection. Computing less reading is convex in the batch and below 0 at none, since the
    weights read grow ever more slowly: it crosses 0 once or never."""
    low, high = 0, 1
    while work.bound(high) == "memory":
        low, high = high, high * 2
        if low >= MOST_BATCH:
            return None
        high = min(high, MOST_BATCH)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work.bound(middle) == "memory" else (low, middle)
    return Derived(
        value=high,
        unit="sequences",
        formula="least batch whose operations ÷ throughput reach its bytes ÷ bandwidth: "
        f"{figure(work.computing_s(high) * 1000)} ms and {figure(work.reading_s(high) * 1000)} ms "
        f"at {figure(high)}",
        inputs=_inputs(work, high),
        note="Of one copy. Reading KV grows with the context, so that a longer one puts it off.",
        bound="at least",
    )
