"""A chip's two limits, and where they meet.

In all figures of speed, communication between GPUs, the scheduler, sampling and the network are
left out: each is a bound that a real engine stays short of. A measured efficiency turns it into an
expectation.
"""

from __future__ import annotations

from typing import Literal

from apps.capacity.arithmetic.derived import Derived, Input, figure, given
from apps.capacity.arithmetic.memory import token_layers
from apps.capacity.arithmetic.shapes import Deployment, Shape

Bound = Literal["memory", "compute"]


def throughput(deployment: Deployment) -> Derived:
    """Operations a second of one GPU at this precision; BF16's where it has no such units."""
    chip, runs_in = deployment.chip, deployment.precision.runs_in
    special = {"fp8": chip.fp8_tflops, "int8": chip.int8_tops}.get(runs_in)
    tera = special or chip.bf16_tflops
    name = runs_in.upper() if special else "BF16"
    lacks = special is None and runs_in != "bf16"
    return Derived(
        value=tera * 1e12,
        unit="operations/s",
        formula=f"dense throughput, {name} = {figure(tera)} × 10¹²",
        inputs=(given(f"{chip.name}, {name}, dense", tera, "× 10¹² operations/s", chip.source),),
        note=f"{chip.name} has no {runs_in.upper()} units: it multiplies in BF16." if lacks else "",
    )


def ridge(deployment: Deployment) -> Derived:
    """Operations a byte above which multiplying takes longer than reading."""
    rate, chip = throughput(deployment), deployment.chip
    return Derived(
        value=rate.value / (chip.bandwidth_gb_s * 1e9),
        unit="operations/byte",
        formula="throughput ÷ bandwidth = "
        f"{figure(rate.value / 1e12)} × 10¹² ÷ ({figure(chip.bandwidth_gb_s)} × 10⁹)",
        inputs=(*rate.inputs, bandwidth(deployment)),
        note=rate.note,
    )


def bandwidth(deployment: Deployment) -> Input:
    """Of one GPU's memory, as a formula's input."""
    chip = deployment.chip
    return given(f"bandwidth of one {chip.name}", chip.bandwidth_gb_s, "GB/s", chip.source)


def attention_flops(shape: Shape, context_tokens: int) -> int:
    """Of one token that looks at `context_tokens`: scores and their weighted sum.

    Heads: 4 × layers × heads × head size × context. Latent, with the projections absorbed:
    2 × layers × heads × (2 × latent + rope) × context.
    """
    kept = token_layers(shape, context_tokens)
    if shape.attention == "latent":
        return 2 * kept * shape.heads * (2 * shape.latent_dim + shape.rope_dim)
    return 4 * kept * shape.heads * shape.head_dim


def left_out(deployment: Deployment) -> str:
    """What a bound of several GPUs says nothing of; "" on one."""
    if deployment.ways == 1:
        return ""
    return f"Communication between the {deployment.ways} GPUs is left out."


def uneven(shape: Shape, batch: int) -> str:
    """What the expected number of experts leaves open; "" where it is exact."""
    if batch == 1 or shape.expert_parameters == 0:
        return ""
    return (
        "The experts read are what is expected of routing without favourites; uneven routing "
        "reads fewer, and the true limit then lies higher."
    )
