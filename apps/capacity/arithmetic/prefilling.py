"""The floor of the first token: a prompt's multiplications, and the weights read once."""

from __future__ import annotations

from dataclasses import dataclass

from apps.capacity.arithmetic.derived import Derived, figure, given
from apps.capacity.arithmetic.memory import MOST_BATCH, MOST_TOKENS, kv_size, weights_read
from apps.capacity.arithmetic.ridge import Bound, bandwidth, left_out, ridge, throughput, uneven
from apps.capacity.arithmetic.shapes import Deployment, Shape, real, whole

UTILISATION = 0.5  # of the chip's throughput in prefill: an assumption


@dataclass(frozen=True, slots=True)
class Prefill:
    """Reading one prompt, alone on its copy."""

    bound: Bound
    linear_ms: Derived  # multiplying with the weights
    attention_ms: Derived  # what grows with the square of the prompt
    read_ms: Derived  # reading the weights once
    floor_ms: Derived  # of the time to the first token
    intensity: Derived
    ridge: Derived


def prefill(deployment: Deployment, *, tokens: int, utilisation: float = UTILISATION) -> Prefill:
    """The least time to the first token of a prompt of `tokens` that nothing else delays.

    More of (2 × active parameters × tokens + attention) ÷ (throughput × utilisation × GPUs of a
    copy) and weights ÷ bandwidth. Cached tokens of a prefix are for the caller to take off.
    """
    whole("tokens", tokens, 1, MOST_TOKENS)
    real("utilisation", utilisation, 0, 1)
    linear = _linear_ms(deployment, tokens, utilisation)
    attention = _attention_ms(deployment, tokens, utilisation)
    read = _read_ms(deployment, tokens)
    intensity, edge = _intensity(deployment, tokens), ridge(deployment)
    return Prefill(
        bound="compute" if intensity.value >= edge.value else "memory",
        linear_ms=linear,
        attention_ms=attention,
        read_ms=read,
        floor_ms=_floor(deployment, linear, attention, read),
        intensity=intensity,
        ridge=edge,
    )


def prompt_attention_flops(shape: Shape, tokens: int) -> int:
    """Of a prompt, each token looking at itself and those before it (within a window, if any).

    Heads: 4 × heads × head size × pairs of tokens. Latent, unpacked for prefill: 2 × heads ×
    (2 × head size + rope) × pairs, its values as wide as its keys without rope.
    """
    full = shape.layers - shape.window_layers
    pairs = full * _pairs(tokens, tokens) + shape.window_layers * _pairs(
        tokens, shape.window_tokens
    )
    return 2 * pairs * shape.heads * (2 * shape.head_dim + shape.rope_dim)


def _pairs(tokens: int, window: int) -> int:
    """Tokens each token looks at, summed: 1 + 2 + … up to `window`, then that for the others."""
    near = min(tokens, window)
    return near * (near + 1) // 2 + (tokens - near) * near


def _ms(deployment: Deployment, operations: int, utilisation: float) -> float:
    return operations / (throughput(deployment).value * utilisation * deployment.ways) * 1000


def _divided(deployment: Deployment, utilisation: float) -> str:
    shared = f" × {deployment.ways} GPUs" if deployment.ways > 1 else ""
    rate = figure(throughput(deployment).value / 1e12)
    return f"({rate} × 10¹² × {utilisation:g}{shared})"


def _linear_ms(deployment: Deployment, tokens: int, utilisation: float) -> Derived:
    shape, rate = deployment.shape, throughput(deployment)
    return Derived(
        value=_ms(deployment, 2 * shape.active_parameters * tokens, utilisation),
        unit="ms",
        formula="2 × active parameters × tokens ÷ (throughput × utilisation × GPUs of a copy) = "
        f"2 × {figure(shape.active_parameters)} × {figure(tokens)} ÷ "
        + _divided(deployment, utilisation),
        inputs=(
            given("active parameters", shape.active_parameters, note=shape.source),
            given("tokens of the prompt", tokens),
            given("utilisation", utilisation, note="an assumption, until it is measured"),
            given("GPUs that share a copy", deployment.ways),
            *rate.inputs,
        ),
        note=rate.note,
        bound="at least",
    )


def _attention_ms(deployment: Deployment, tokens: int, utilisation: float) -> Derived:
    operations = prompt_attention_flops(deployment.shape, tokens)
    return Derived(
        value=_ms(deployment, operations, utilisation),
        unit="ms",
        formula="2 × heads × (key size + value size) × pairs of tokens, of all layers ÷ "
        "(throughput × utilisation × GPUs of a copy) = "
        f"{figure(operations / 1e12)} × 10¹² ÷ {_divided(deployment, utilisation)}",
        inputs=(
            given("heads", deployment.shape.heads),
            given("head size", deployment.shape.head_dim),
            given("layers", deployment.shape.layers),
            given("tokens of the prompt", tokens),
        ),
        note="Grows with the square of the prompt, where no window bounds it. Counted at the "
        "throughput of the weights, which is the most it can have.",
        bound="at least",
    )


def _read_ms(deployment: Deployment, tokens: int) -> Derived:
    read = weights_read(deployment.shape, deployment.precision, min(tokens, MOST_BATCH))
    speed = deployment.chip.bandwidth_gb_s * deployment.ways
    return Derived(
        value=read.value / (speed * 1e9) * 1000,
        unit="ms",
        formula="weights read ÷ (bandwidth × GPUs of a copy) = "
        f"{read.text} ÷ ({figure(deployment.chip.bandwidth_gb_s)} GB/s × {deployment.ways})",
        inputs=(
            given("weights read", read.text, note=read.formula),
            given("GPUs that share a copy", deployment.ways),
            bandwidth(deployment),
        ),
        note=" ".join(n for n in (read.note, uneven(deployment.shape, tokens)) if n),
        bound="at least",
    )


def _floor(deployment: Deployment, linear: Derived, attention: Derived, read: Derived) -> Derived:
    return Derived(
        value=max(linear.value + attention.value, read.value),
        unit="ms",
        formula="more of (weights' part + attention's part) and reading the weights = more of "
        f"({figure(linear.value)} + {figure(attention.value)}) and {figure(read.value)}",
        inputs=(
            given("weights' part", linear.text, note=linear.formula),
            given("attention's part", attention.text, note=attention.formula),
            given("reading the weights", read.text, note=read.formula),
            *linear.inputs,
        ),
        note=" ".join(note for note in (left_out(deployment), linear.note) if note),
        bound="at least",
    )


def _intensity(deployment: Deployment, tokens: int) -> Derived:
    """Of one GPU of a copy: its share of the operations over its share of the bytes."""
    shape = deployment.shape
    operations = 2 * shape.active_parameters * tokens + prompt_attention_flops(shape, tokens)
    weights = weights_read(shape, deployment.precision, min(tokens, MOST_BATCH)).value
    kv = kv_size(shape, deployment.kv, tokens)
    size = weights / deployment.ways + kv / deployment.kv_ways
    return Derived(
        value=operations / deployment.ways / size,
        unit="operations/byte",
        formula="operations ÷ (weights read + KV written), of one GPU = "
        f"{figure(operations / deployment.ways / 1e9)} × 10⁹ ÷ {figure(size / 1e9)} GB",
        inputs=(
            given("operations", operations),
            given("weights read", weights, "bytes"),
            given("KV written", kv, "bytes"),
            given("GPUs that share a copy", deployment.ways, note=f"{deployment.kv_ways} share KV"),
        ),
    )
