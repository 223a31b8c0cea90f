"""What the arithmetic computes with: a model's shape, a chip, precisions, and all of it together.

Each refuses what cannot be (`PlanInvalid`), so that the formulas need not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from apps.capacity.errors import PlanInvalid

# Far above anything that is built; below it no formula overflows.
_LIMITS = {
    "layers": 10_000,
    "hidden": 10_000_000,
    "heads": 100_000,
    "kv_heads": 100_000,
    "head_dim": 1_000_000,
    "latent_dim": 1_000_000,
    "rope_dim": 1_000_000,
    "parameters": 10**15,
    "active_parameters": 10**15,
    "experts": 1_000_000,
    "experts_active": 1_000_000,
    "context_tokens": 2**31,
    "window_tokens": 2**31,
    "window_layers": 10_000,
    "vocabulary": 100_000_000,
}
_MAY_BE_ZERO = {
    "latent_dim",
    "rope_dim",
    "experts",
    "experts_active",
    "window_tokens",
    "window_layers",
    "vocabulary",
}
MOST_GPUS = 1024

# Assumptions; a plan shows them as such and lets them be changed.
MEMORY_SHARE = 0.90  # of a GPU's memory that the engine may take (vLLM's default)
RESERVE_BYTES = 4 * 10**9  # of each GPU: runtime, graphs, communication buffers, activations


def whole(name: str, value: object, least: int, most: int) -> int:
    """`value`, a whole number from `least` to `most`; PlanInvalid says what else it is."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanInvalid(f"{name}: give a whole number from {least:,} to {most:,}.")
    return value


def real(name: str, value: object, least: float, most: float) -> float:
    """`value`, a number above `least` and up to `most`; PlanInvalid says what else it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least < value <= most:  # type: ignore[arg-type, operator]
        raise PlanInvalid(f"{name}: give a number above {least:,} and up to {most:,}.")
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Shape:
    """A model. Parameters are counts; `head_dim` of latent attention is that without rope."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    parameters: int
    active_parameters: int
    context_tokens: int
    attention: Literal["heads", "latent"] = "heads"
    latent_dim: int = 0
    rope_dim: int = 0
    experts: int = 0
    experts_active: int = 0
    window_tokens: int = 0
    window_layers: int = 0
    vocabulary: int = 0  # 0: not known
    tied_embeddings: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for name, most in _LIMITS.items():
            whole(f"{self.name}, {name}", getattr(self, name), int(name not in _MAY_BE_ZERO), most)
        for part, of in (
            ("kv_heads", "heads"),
            ("active_parameters", "parameters"),
            ("experts_active", "experts"),
            ("window_layers", "layers"),
        ):
            if getattr(self, part) > getattr(self, of):
                raise PlanInvalid(f"{self.name}: {part} is more than {of}.")
        self._check_together()

    def _check_together(self) -> None:
        if (self.attention == "latent") != (self.latent_dim > 0):
            raise PlanInvalid(f"{self.name}: latent attention, and it alone, has a latent_dim.")
        if self.window_layers and not self.window_tokens:
            raise PlanInvalid(f"{self.name}: layers with a window need window_tokens.")
        if self.experts and not self.experts_active:
            raise PlanInvalid(f"{self.name}: experts need experts_active.")
        if self.shared_parameters < 0:
            raise PlanInvalid(f"{self.name}: active_parameters are too few for its experts.")
        if self.table_parameters > self.parameters:
            raise PlanInvalid(f"{self.name}: vocabulary × hidden is more than all parameters.")

    @property
    def table_parameters(self) -> int:
        """The input embedding and the output head: quantised checkpoints leave them 16-bit."""
        return self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)

    @property
    def expert_parameters(self) -> Fraction:
        """Of one routed expert, over all layers: (total - active) / (experts - experts active)."""
        idle = self.experts - self.experts_active
        return Fraction(self.parameters - self.active_parameters, idle) if idle else Fraction(0)

    @property
    def shared_parameters(self) -> Fraction:
        """Those that every token uses: attention, tables, shared experts, dense layers."""
        if self.expert_parameters == 0:
            return Fraction(self.parameters)
        return self.active_parameters - self.expert_parameters * self.experts_active


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU. Throughputs are dense, 1e12 operations a second; None: it has no such units."""

    name: str
    memory_bytes: int
    bandwidth_gb_s: float
    bf16_tflops: float
    fp8_tflops: float | None = None
    int8_tops: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        whole(f"{self.name}, memory_bytes", self.memory_bytes, 1, 10**15)
        for name in ("bandwidth_gb_s", "bf16_tflops", "fp8_tflops", "int8_tops"):
            value = getattr(self, name)
            if value is not None or name in ("bandwidth_gb_s", "bf16_tflops"):
                real(f"{self.name}, {name}", value, 0, 10**9)


@dataclass(frozen=True, slots=True)
class Precision:
    """A rung: bits of a weight with its scales, and what the multiplications run in."""

    key: str
    label: str
    bits: Fraction
    runs_in: Literal["bf16", "fp8", "int8"]
    note: str = ""

    @property
    def keeps_tables(self) -> bool:
        """Whether the embedding and the output head stay at 16 bits."""
        return self.bits < 16


@dataclass(frozen=True, slots=True)
class KvPrecision:
    """How a value of the KV cache is kept."""

    key: str
    label: str
    bits: Fraction
    note: str = ""


def four_bit(group: int = 128, *, zero_points: bool = False) -> Precision:
    """Weight-only 4 bits: 4 + 16 / group for the scales, + 4 / group with zero points."""
    whole("group", group, 1, 1_000_000)
    bits = 4 + Fraction(16 + (4 if zero_points else 0), group)
    scales = f"4 + 16 / {group}" + (f" + 4 / {group}" if zero_points else "")
    return Precision(
        key="int4",
        label=f"4-bit weights, groups of {group}",
        bits=bits,
        runs_in="bf16",
        note=f"{scales} = {float(bits):.4g} bits a weight: a 16-bit scale for each group"
        + (" and a 4-bit zero point. " if zero_points else ". ")
        + "Weights are unpacked and multiplied in 16 bits, so that prefill gains nothing.",
    )


_TABLES = "Embeddings and output head stay at 16 bits; scales a channel are too few to count."
BF16 = Precision("bf16", "BF16 or FP16", Fraction(16), "bf16")
FP8 = Precision("fp8", "FP8", Fraction(8), "fp8", _TABLES)
INT8 = Precision("int8", "INT8", Fraction(8), "int8", _TABLES)
INT4 = four_bit()
PRECISIONS = {rung.key: rung for rung in (BF16, FP8, INT8, INT4)}

KV16 = KvPrecision("kv16", "16-bit", Fraction(16))
KV8 = KvPrecision("kv8", "FP8", Fraction(8))
Q8_0 = KvPrecision(
    "q8_0", "q8_0 (llama.cpp)", Fraction(17, 2), "8 bits and a 16-bit scale for each 32 values"
)
Q4_0 = KvPrecision(
    "q4_0", "q4_0 (llama.cpp)", Fraction(9, 2), "4 bits and a 16-bit scale for each 32 values"
)
KV_PRECISIONS = {kv.key: kv for kv in (KV16, KV8, Q8_0, Q4_0)}


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model on GPUs. `tensor_parallel` 0: as many of `gpus` as the heads can be shared over.

    GPUs beyond that hold further copies (`copies`); they share no memory.
    """

    shape: Shape
    chip: Chip
    gpus: int = 1
    precision: Precision = BF16
    kv: KvPrecision = KV16
    tensor_parallel: int = 0
    memory_share: float = MEMORY_SHARE
    reserve_bytes: int = RESERVE_BYTES

    def __post_init__(self) -> None:
        whole("gpus", self.gpus, 1, MOST_GPUS)
        whole("tensor_parallel", self.tensor_parallel, 0, self.gpus)
        real("memory_share", self.memory_share, 0, 1)
        whole("reserve_bytes", self.reserve_bytes, 0, 10**15)
        if self.tensor_parallel and (
            not can_share(self.shape, self.tensor_parallel) or self.gpus % self.tensor_parallel
        ):
            raise PlanInvalid(
                f"{self.shape.name} cannot be shared over {self.tensor_parallel} of {self.gpus} "
                f"GPUs: {self.shape.heads} heads and {self.shape.kv_heads} KV heads must divide."
            )

    @property
    def ways(self) -> int:
        """Over how many GPUs one copy is shared."""
        if self.tensor_parallel:
            return self.tensor_parallel
        ways = range(self.gpus, 0, -1)
        return next(n for n in ways if self.gpus % n == 0 and can_share(self.shape, n))

    @property
    def copies(self) -> int:
        return self.gpus // self.ways

    @property
    def kv_ways(self) -> int:
        """Over how many GPUs a copy's KV cache is shared; beyond that it is repeated.

        General knowledge of plain tensor parallelism: a KV head is not split, and each GPU needs
        the whole latent.
        """
        return 1 if self.shape.attention == "latent" else min(self.ways, self.shape.kv_heads)


def can_share(shape: Shape, ways: int) -> bool:
    """Whether tensor parallelism can split the heads: each GPU has equally many, and whole ones."""
    if shape.heads % ways:
        return False
    if shape.attention == "latent":
        return True
    return shape.kv_heads % ways == 0 or ways % shape.kv_heads == 0
