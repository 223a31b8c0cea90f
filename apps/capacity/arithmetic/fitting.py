"""What fits: memory that is left, tokens that it caches, sessions, and the fewest GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from apps.capacity.arithmetic.derived import Derived, Input, figure, given, quantity
from apps.capacity.arithmetic.memory import MOST_TOKENS, kv_bytes, kv_bytes_per_token, weight_bytes
from apps.capacity.arithmetic.shapes import MOST_GPUS, Deployment, can_share, whole

MOST_SESSIONS = 10_000_000


@dataclass(frozen=True, slots=True)
class Fit:
    """A model on GPUs. Where it does not fit, `cached_tokens` and `sessions` are 0."""

    fits: bool  # the weights, and at least one session of the context asked for
    weights: Derived
    usable: Derived
    free: Derived  # below 0: what is missing
    kv_per_token: Derived
    cached_tokens: Derived
    kv_per_session: Derived
    sessions: Derived


def fit(deployment: Deployment, context_tokens: int) -> Fit:
    """What is left beside the weights, and how many sessions of `context_tokens` that holds."""
    shape, kv = deployment.shape, deployment.kv
    at_once = sessions(deployment, context_tokens)
    return Fit(
        fits=at_once.value >= 1,
        weights=weight_bytes(shape, deployment.precision),
        usable=usable_memory(deployment),
        free=free_memory(deployment),
        kv_per_token=kv_bytes_per_token(shape, kv),
        cached_tokens=cached_tokens(deployment),
        kv_per_session=kv_bytes(shape, kv, context_tokens),
        sessions=at_once,
    )


def usable_memory(deployment: Deployment) -> Derived:
    """Of all GPUs: share × memory - reserve, of each."""
    chip = deployment.chip
    return Derived(
        value=math.floor(_usable_each(deployment) * deployment.gpus),
        unit="bytes",
        formula="GPUs × (share × memory − reserve) = "
        f"{deployment.gpus} × ({deployment.memory_share:g} × "
        f"{quantity(chip.memory_bytes, 'bytes')} − {quantity(deployment.reserve_bytes, 'bytes')})",
        inputs=tuple(_machine(deployment)),
    )


def free_memory(deployment: Deployment) -> Derived:
    """Usable memory less the weights, of all GPUs; each copy has the weights once."""
    weights = weight_bytes(deployment.shape, deployment.precision)
    usable = usable_memory(deployment)
    copies = f"{deployment.copies} × " if deployment.copies > 1 else ""
    return Derived(
        value=math.floor(_free_each(deployment) * deployment.gpus),
        unit="bytes",
        formula=f"usable − {'copies × ' if copies else ''}weights = "
        f"{usable.text} − {copies}{weights.text}",
        inputs=(given("usable", usable.text), given("weights", weights.text), *_ways(deployment)),
        note=weights.note,
    )


def cached_tokens(deployment: Deployment) -> Derived:
    """Tokens whose keys and values fit beside the weights, in all copies together.

    Of layers with a window this counts tokens within it; a longer context takes less for each.
    """
    each = kv_bytes_per_token(deployment.shape, deployment.kv)
    return Derived(
        value=_held(deployment, int(each.value)),
        unit="tokens",
        formula=_kv_formula(deployment, "KV bytes a token", each),
        inputs=(
            given("free", free_memory(deployment).text),
            given("KV bytes a token", each.text, note=each.formula),
            *_ways(deployment),
        ),
        note=" ".join(n for n in (_repeated(deployment), each.note) if n),
        bound="at most",
    )


def sessions(deployment: Deployment, context_tokens: int) -> Derived:
    """Sequences of `context_tokens` that fit at once, all of it filled, no prefix shared."""
    whole("context_tokens", context_tokens, 1, MOST_TOKENS)
    each = kv_bytes(deployment.shape, deployment.kv, context_tokens)
    return Derived(
        value=_held(deployment, int(each.value)),
        unit="sessions",
        formula=_kv_formula(deployment, "KV bytes of a session", each),
        inputs=(
            given("free", free_memory(deployment).text),
            given("tokens of a session", context_tokens),
            given("KV bytes of a session", each.text, note=each.formula),
            *_ways(deployment),
        ),
        note=" ".join(n for n in (_repeated(deployment), each.note) if n),
        bound="at most",
    )


def smallest_fit(
    deployment: Deployment, *, context_tokens: int, at_once: int = 1, most: int = 64
) -> Derived | None:
    """The fewest GPUs, sharing one copy, that hold `at_once` sessions; None: not even `most`.

    `deployment.gpus` is not looked at.
    """
    whole("sessions", at_once, 1, MOST_SESSIONS)
    whole("most", most, 1, MOST_GPUS)
    shared = [n for n in range(1, most + 1) if can_share(deployment.shape, n)]
    for gpus in shared:
        tried = replace(deployment, gpus=gpus, tensor_parallel=gpus)
        held = sessions(tried, context_tokens)
        if held.value >= at_once:
            return _smallest(tried, held, at_once, shared)
    return None


def _smallest(deployment: Deployment, held: Derived, at_once: int, shared: list[int]) -> Derived:
    return Derived(
        value=deployment.gpus,
        unit="GPUs",
        formula=f"fewest GPUs whose sessions are at least {figure(at_once)}: {held.formula} = "
        f"{figure(held.value)} sessions on {deployment.gpus}",
        inputs=(given("sessions wanted", at_once), *held.inputs, *_machine(deployment)),
        note="The heads can be shared over "
        + ", ".join(str(n) for n in shared if n <= max(8, deployment.gpus))
        + " GPUs.",
        bound="at least",
    )


def _held(deployment: Deployment, bytes_each: int) -> int:
    """How many of that size fit: each GPU of a copy holds 1 / kv_ways of every one."""
    free = _free_each(deployment)
    return max(0, math.floor(free * deployment.kv_ways / bytes_each)) * deployment.copies


def _usable_each(deployment: Deployment) -> Fraction:
    share = Fraction(str(deployment.memory_share))
    return share * deployment.chip.memory_bytes - deployment.reserve_bytes


def _free_each(deployment: Deployment) -> Fraction:
    weights = int(weight_bytes(deployment.shape, deployment.precision).value)
    return _usable_each(deployment) - Fraction(weights, deployment.ways)


def _kv_formula(deployment: Deployment, of: str, each: Derived) -> str:
    free, size = free_memory(deployment), f"{figure(each.value)} bytes"
    if deployment.kv_ways == deployment.ways:
        return f"free ÷ {of} = {free.text} ÷ {size}"
    return (
        f"free × GPUs with a KV part of their own ÷ (GPUs of a copy × {of}) = "
        f"{free.text} × {deployment.kv_ways} ÷ ({deployment.ways} × {size})"
    )


def _repeated(deployment: Deployment) -> str:
    if deployment.kv_ways == deployment.ways:
        return ""
    if deployment.shape.attention == "latent":
        return f"Each of the {deployment.ways} GPUs of a copy keeps the whole latent."
    return (
        f"{deployment.shape.kv_heads} KV heads can be shared over no more than "
        f"{deployment.kv_ways} of the {deployment.ways} GPUs; the others keep repetitions."
    )


def _machine(deployment: Deployment) -> list[Input]:
    chip = deployment.chip
    return [
        given("GPUs", deployment.gpus),
        given(f"memory of one {chip.name}", chip.memory_bytes, "bytes", chip.source),
        given("share that the engine may take", deployment.memory_share, note="an assumption"),
        given(
            "reserve of each GPU",
            deployment.reserve_bytes,
            "bytes",
            "an assumption: runtime, graphs, communication buffers, activations",
        ),
    ]


def _ways(deployment: Deployment) -> list[Input]:
    return [
        given("GPUs that share a copy", deployment.ways, note="tensor parallelism"),
        given("of them with a KV part of their own", deployment.kv_ways),
        given("copies", deployment.copies),
    ]
