"""What a model needs and what a chip can give: pure functions, each figure with its formula.

Bytes are counted in powers of ten (1 GB = 10⁹ bytes), as makers print memory. Every result is a
`Derived`: its value, unit, formula with the numbers put in, and inputs.
"""

from __future__ import annotations

from apps.capacity.arithmetic.decoding import Decode, decode
from apps.capacity.arithmetic.derived import Derived, Input, figure, given, quantity
from apps.capacity.arithmetic.fitting import (
    Fit,
    cached_tokens,
    fit,
    free_memory,
    sessions,
    smallest_fit,
    usable_memory,
)
from apps.capacity.arithmetic.memory import (
    distinct_experts,
    kv_bytes,
    kv_bytes_per_token,
    weight_bytes,
    weights_read,
)
from apps.capacity.arithmetic.prefilling import UTILISATION, Prefill, prefill
from apps.capacity.arithmetic.ridge import ridge, throughput
from apps.capacity.arithmetic.shapes import (
    BF16,
    FP8,
    INT4,
    INT8,
    KV8,
    KV16,
    KV_PRECISIONS,
    MEMORY_SHARE,
    PRECISIONS,
    Q4_0,
    Q8_0,
    RESERVE_BYTES,
    Chip,
    Deployment,
    KvPrecision,
    Precision,
    Shape,
    can_share,
    four_bit,
)

__all__ = [
    "BF16",
    "FP8",
    "INT4",
    "INT8",
    "KV8",
    "KV16",
    "KV_PRECISIONS",
    "MEMORY_SHARE",
    "PRECISIONS",
    "Q4_0",
    "Q8_0",
    "RESERVE_BYTES",
    "UTILISATION",
    "Chip",
    "Decode",
    "Deployment",
    "Derived",
    "Fit",
    "Input",
    "KvPrecision",
    "Precision",
    "Prefill",
    "Shape",
    "cached_tokens",
    "can_share",
    "decode",
    "distinct_experts",
    "figure",
    "fit",
    "four_bit",
    "free_memory",
    "given",
    "kv_bytes",
    "kv_bytes_per_token",
    "prefill",
    "quantity",
    "ridge",
    "sessions",
    "smallest_fit",
    "throughput",
    "usable_memory",
    "weight_bytes",
    "weights_read",
]
