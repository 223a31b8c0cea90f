"""What a plan is made from. Everything was checked before: `forms` says at a field what is wrong.

Times are milliseconds, money micros of the site's currency, shares 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from apps.capacity.arithmetic.shapes import Chip, KvPrecision, Precision, Shape

HOURS_A_MONTH = 730  # 365 × 24 / 12
DAYS_A_MONTH = 365 / 12
# Of a normal distribution, the 95th percentile is so many standard deviations above the mean.
_Z95 = 1.645


@dataclass(frozen=True, slots=True)
class Tokens:
    """Lengths of prompts or outputs."""

    mean: float
    p95: float
    stdev: float

    @classmethod
    def typed(cls, mean: float, p95: float) -> Tokens:
        """From two figures: the deviation that a normal distribution with them has."""
        return cls(mean, p95, max(0.0, (p95 - mean) / _Z95))


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of the model. `origin` says where it is from, in words."""

    prompt: Tokens
    output: Tokens
    peak_per_s: float  # requests a second that must be carried
    a_day: float  # requests of a mean day
    prefix_reuse: float = 0.0  # of prompt tokens, those already in the prefix cache
    origin: str = "typed"

    @property
    def held_tokens(self) -> float:
        """What a request keeps in the KV cache on average while it is answered."""
        return self.prompt.mean + self.output.mean / 2

    @property
    def most_tokens(self) -> float:
        """What a long request keeps at its end."""
        return self.prompt.p95 + self.output.p95


@dataclass(frozen=True, slots=True)
class Promises:
    """What callers are promised; None: nothing."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody has measured yet. A page names them as assumptions and lets them be changed."""

    memory_share: float = 0.90
    reserve_bytes: int = 4 * 10**9
    prefill_efficiency: float = 0.50  # of the chip's dense throughput
    decode_efficiency: float = 0.60  # of the step that bandwidth or throughput allow
    utilisation: float = 0.70  # of the time, at the peak: beyond it queues grow without bound
    overhead: float = 0.30  # on the GPU's hour: storage, traffic, idle time
    most_batch: int = 256  # sequences at a time of a copy, a setting of the engine
    link_gb_s: float = 50.0  # between machines: 400 Gbit/s


@dataclass(frozen=True, slots=True)
class Draft:
    """A small model that guesses ahead of the large one."""

    shape: Shape
    tokens: int = 4  # guessed at a time
    acceptance: float | None = None  # of guesses, as measured; None: not measured


@dataclass(frozen=True, slots=True)
class HourPrice:
    """What an hour of one GPU costs: a range of a list, or the two alike where it was typed."""

    label: str
    low_micros: int
    high_micros: int
    source: str = ""
    as_of: date | None = None


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """A managed offer for a comparable model. An endpoint has `hour_micros`."""

    label: str
    input_micros_per_mtok: int
    output_micros_per_mtok: int
    cached_micros_per_mtok: int
    source: str
    as_of: date
    hour_micros: int | None = None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """All of it."""

    shape: Shape
    chip: Chip
    gpus: int  # of one copy of the model
    precision: Precision
    kv: KvPrecision
    context_tokens: int  # of a session, at most
    demand: Demand
    promises: Promises = Promises()
    assumptions: Assumptions = Assumptions()
    hours: Sequence[HourPrice] = ()
    listed: Sequence[ListedPrice] = ()
    staff_micros_a_month: int = 0
    draft: Draft | None = None
