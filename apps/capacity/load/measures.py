"""What the times of requests add up to. Each figure's formula stands at its field.

Of one request, by one monotonic clock: `intended` is when the schedule wanted it sent, `begun` when
the generator set about it, `sent` when its bytes were given to the socket (after a connection was
opened, where none was kept), `first` and `last` when the first and the last piece of text came in,
`end` when the stream had ended, or failed; n is its output tokens as the server reported them.
A role-only or empty first event is no text; reasoning and calls of tools are text.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Record(_Part):
    """One request. Seconds from the point's begin; None: it did not get there."""

    number: int
    intended_s: float
    sent_s: float | None = None
    first_s: float | None = None
    last_s: float | None = None
    end_s: float | None = None
    outcome: Literal["complete", "failed", "timed_out", "refused", "unsent"]
    error_code: str = ""
    prompt_tokens: int = 0  # as the server reported them
    output_tokens: int = 0
    cached_tokens: int = 0
    tokens_reported: bool = True  # False: it reported none, and pieces were counted
    wanted_prompt_tokens: int = 0
    wanted_output_tokens: int = 0
    pieces_s: tuple[float, ...] = ()  # when each piece of text came in
    begun_s: float | None = None
    cached_reported: bool = False  # whether the server tells of its prompt cache


class Percentiles(_Part):
    """Of `count` values, milliseconds; linear between the two nearest (NumPy's default)."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class Interval(_Part):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


class Client(_Part):
    """How the generator itself fared. A late or busy one has measured itself."""

    cpu_share: float  # of one core
    lag_p50_ms: float  # of a timer that should have fired
    lag_p99_ms: float
    lag_max_ms: float
    late_p99_ms: float  # begun - intended, of open loops; 0 for closed ones
    late_max_ms: float
    # lag_p99 and late_p99 below 10 ms and below a tenth of TTFT's p50, or below 1 ms; and less than
    # 90 % of a core in use.
    is_trustworthy: bool


class CrossCheck(_Part):
    """Reported token counts against the server's own tokenizer, over `requests`."""

    requests: int
    prompt_ratio: float | None = None  # reported / counted; a chat template comes on top
    output_ratio: float | None = None


class Figures(_Part):
    """One point."""

    requests: int  # meant to be sent after the warm-up: the denominator of every share
    complete: int
    failed: int  # failed, timed_out, refused or unsent
    errors: dict[str, int] = {}  # by code
    offered_per_s: float  # intended requests a second
    duration_s: float  # first intended to last end
    concurrency_mean: float  # sum of (end - sent) / duration
    concurrency_max: int
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    cached_share: float | None = None  # cached / prompt tokens, as the server reported; None: never
    tokens_reported: int  # requests whose tokens the server reported
    pieces_per_token: float | None = None  # below 1: several tokens in a piece
    # What the workload wanted of the requests that the two sums above are of: the complete ones.
    wanted_prompt_tokens: int = 0
    wanted_output_tokens: int = 0
    output_per_s: float  # output tokens of complete requests / duration
    input_per_s: float
    requests_per_s: float  # complete / duration
    ttft: Percentiles | None = None  # first - intended, of complete requests
    ttft_sent: Percentiles | None = None  # first - sent: what a closed loop would have shown
    tpot: Percentiles | None = None  # (last - first) / (n - 1), of requests with n > 1
    itl: Percentiles | None = None  # gaps between pieces, of all requests together
    e2e: Percentiles | None = None  # end - intended
    good: int | None = None  # requests that kept every promise; None: none was given
    good_share: float | None = None  # good / requests
    goodput_per_s: float | None = None  # good / duration
    keeps_promises: bool | None = None  # good_share >= promises.share
    server: dict[str, float] = {}  # what its own counters say of this time, e.g. prefix hits
    client: Client
    cross_check: CrossCheck | None = None
    stopped: bool = False  # by a person: not as long as it was to be
