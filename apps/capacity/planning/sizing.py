"""Step 1, bytes: whether the model fits, what is left, and what would make it fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from apps.capacity.arithmetic.derived import Derived, figure
from apps.capacity.arithmetic.fitting import Fit, fit, smallest_fit
from apps.capacity.arithmetic.shapes import (
    INT4,
    KV8,
    KV_PRECISIONS,
    PRECISIONS,
    Deployment,
    KvPrecision,
    Precision,
)
from apps.capacity.planning.inputs import PlanInputs
from apps.capacity.planning.saying import say_value


@dataclass(frozen=True, slots=True)
class RungRow:
    """What a precision makes of the bytes, on the GPUs that were asked for."""

    label: str
    is_chosen: bool
    weights: Derived
    cached_tokens: Derived
    sessions: Derived
    fewest_gpus: Derived | None  # None: not even 64


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that makes a model fit."""

    words: str
    change: dict[str, str]  # of the page's address


@dataclass(frozen=True, slots=True)
class Sizing:
    fit: Fit
    copies: int
    rungs: list[RungRow]
    kv_rungs: list[RungRow]
    remedies: list[Remedy]  # where it does not fit
    wasted_gpus: bool  # the heads cannot be shared over all of them


def deployment_of(inputs: PlanInputs) -> Deployment:
    """The model on the GPUs of one machine."""
    assumed = inputs.assumptions
    return Deployment(
        shape=inputs.shape,
        chip=inputs.chip,
        gpus=inputs.gpus,
        precision=inputs.precision,
        kv=inputs.kv,
        memory_share=assumed.memory_share,
        reserve_bytes=assumed.reserve_bytes,
    )


def size(inputs: PlanInputs) -> Sizing:
    """What fits, and the same of other precisions."""
    deployment = deployment_of(inputs)
    found = fit(deployment, inputs.context_tokens)
    return Sizing(
        fit=found,
        copies=deployment.copies,
        rungs=[_rung(inputs, precision=rung) for rung in _rungs_beside(inputs.precision)],
        kv_rungs=[_rung(inputs, kv=kv) for kv in KV_PRECISIONS.values()],
        remedies=[] if found.fits else _remedies(inputs),
        wasted_gpus=deployment.ways < inputs.gpus,
    )


def _rungs_beside(chosen: Precision) -> list[Precision]:
    known = list(PRECISIONS.values())
    return known if chosen.key in PRECISIONS else [*known, chosen]


def _rung(
    inputs: PlanInputs, *, precision: Precision | None = None, kv: KvPrecision | None = None
) -> RungRow:
    tried = replace(inputs, precision=precision or inputs.precision, kv=kv or inputs.kv)
    deployment = deployment_of(tried)
    found = fit(deployment, inputs.context_tokens)
    return RungRow(
        label=(kv or tried.precision).label,
        is_chosen=tried == inputs,
        weights=found.weights,
        cached_tokens=found.cached_tokens,
        sessions=found.sessions,
        fewest_gpus=smallest_fit(deployment, context_tokens=inputs.context_tokens),
    )


def _remedies(inputs: PlanInputs) -> list[Remedy]:
    """Each alone would do."""
    deployment, context = deployment_of(inputs), inputs.context_tokens
    found: list[Remedy] = []
    if fewest := smallest_fit(deployment, context_tokens=context):
        gpus = int(fewest.value)
        found.append(Remedy(f"{gpus} GPUs of this kind instead of {inputs.gpus}", _gpus(gpus)))
    for rung in PRECISIONS.values():
        smaller = rung.bits < inputs.precision.bits
        if smaller and fit(replace(deployment, precision=rung), context).fits:
            weights = rung.label if rung is INT4 else f"weights in {rung.label}"
            words = f"{weights}, through the gate of quality first"
            found.append(Remedy(words, {"precision": rung.key}))
    if inputs.kv.bits > KV8.bits and fit(replace(deployment, kv=KV8), context).fits:
        words = "an FP8 KV cache, through the gate of quality first"
        found.append(Remedy(words, {"kv": KV8.key}))
    room = int(fit(deployment, context).cached_tokens.value) // deployment.copies
    if 0 < room < context:
        words = f"a context of at most {figure(room)} tokens instead of {figure(context)}"
        found.append(Remedy(words, {"context": str(room)}))
    return found


def _gpus(count: int) -> dict[str, str]:
    return {"gpus": str(count)}


def missing_memory(found: Fit) -> str:
    """In words, what lacks: of the weights, or of the one session beside them."""
    if found.free.value < 0:
        return f"the weights alone need {say_value(-found.free.value, 'bytes')} more than there is"
    lacks = found.kv_per_session.value - found.free.value
    return (
        "the weights fit, but beside them a session of that context lacks "
        f"{say_value(max(lacks, 0), 'bytes')}"
    )
