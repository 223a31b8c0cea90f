"""What a load test sends, when, to whom, and within what bounds. Times are seconds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

KEY_VARIABLE = "LOADTEST_KEY"  # the environment's; a key is in no job, row or log

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Target(_Part):
    """A model server, or the gateway of this site in front of one."""

    kind: Literal["openai", "tgi", "null"]  # null: the self-test's own server, which needs no url
    url: str = ""  # of openai with its /v1
    model: str = ""
    via: Literal["direct", "gateway"] = "direct"
    upstream: str = ""  # its name in the gateway, "" where it has none
    # Its own counters, to be read before and after (prefix cache hits, queue): "" where unknown.
    metrics_url: str = ""
    # Of another machine: its host, as a person has named it. Loopback needs no name.
    host: str = ""
    # Whose key is sent, where neither the gateway's catalogue nor a command has one: the tenant
    # (its slug) that a key for the gateway is made for, or the name of an environment variable.
    tenant: str = ""
    key_variable: str = ""
    pace_ms: Annotated[float, Field(ge=0, le=10_000)] = 0.0  # null: between tokens; 0: all at once


class Lengths(_Part):
    """Token counts: normal around `mean`, cut off at the ends; `stdev` 0 is always the mean."""

    mean: Annotated[int, Field(ge=1, le=1_000_000)]
    stdev: NotNegative = 0.0
    least: Annotated[int, Field(ge=1)] = 1
    most: Annotated[int, Field(le=1_000_000)] = 1_000_000

    @model_validator(mode="after")
    def _in_order(self) -> Lengths:
        if not self.least <= self.mean <= self.most:
            raise ValueError("least <= mean <= most does not hold")
        return self


class TraceRow(_Part):
    """One request of a trace."""

    at_s: NotNegative = 0.0  # from the trace's begin
    prompt_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    output_tokens: Annotated[int, Field(ge=1, le=1_000_000)]


class Workload(_Part):
    """What is asked. Prompts are made up, of the lengths wanted; no text of anybody is sent."""

    kind: Literal["synthetic", "trace", "lengths"]
    prompt: Lengths | None = None  # synthetic
    output: Lengths | None = None  # synthetic
    # trace: in order of `at_s`; lengths: drawn from at random, `at_s` unused.
    rows: tuple[TraceRow, ...] = ()
    # Tokens that all prompts begin with alike. 0: no two prompts share their beginning, so that
    # no server's prefix cache can flatter what is measured.
    shared_prefix_tokens: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    seed: int = 0
    origin: str = ""  # in words: "a tenant's ledger, 1,200 answers of 7 days"

    @model_validator(mode="after")
    def _whole(self) -> Workload:
        if self.kind == "synthetic" and (self.prompt is None or self.output is None):
            raise ValueError("a synthetic workload needs lengths of prompts and outputs")
        if self.kind != "synthetic" and not self.rows:
            raise ValueError("a trace needs rows")
        return self


class Arrivals(_Part):
    """When requests are meant to be sent.

    poisson, constant: open loop at `load` requests a second, whatever becomes of those before.
    closed: `load` requests at a time, the next when one has ended. trace: as its rows say, `load`
    times as fast.
    """

    kind: Literal["poisson", "constant", "closed", "trace"]
    load: Positive

    @model_validator(mode="after")
    def _whole_people(self) -> Arrivals:
        if self.kind == "closed" and self.load != int(self.load):
            raise ValueError("a closed loop has a whole number of requests at a time")
        return self


class Bounds(_Part):
    """Where one point ends, whatever happens."""

    duration_s: Positive = 30.0  # in which requests are sent, after the warm-up
    requests: Annotated[int, Field(ge=1, le=100_000)] = 1000  # at most
    warmup_requests: Annotated[int, Field(ge=0, le=1000)] = 2  # other prompts; counted in nothing
    request_timeout_s: Positive = 120.0  # then a request has failed
    drain_s: Positive = 120.0  # for those under way when the sending ends; then they have failed


class Promises(_Part):
    """What callers are promised, milliseconds. A request that keeps all of those given is good.

    A load keeps them where at least `share` of all its requests, failed ones among them, is good.
    """

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None
    e2e_ms: Positive | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.95


class Job(_Part):
    """One point."""

    target: Target
    workload: Workload
    arrivals: Arrivals
    bounds: Bounds = Bounds()
    promises: Promises = Promises()
    seed: int = 0  # arrivals and lengths; also makes prompts other than those of other jobs
    temperature: NotNegative = 0.0
    # Ask the server not to end before the wanted length, where it knows how (`ignore_eos`).
    full_length: bool = True
    # Ask the server to count the tokens of some prompts and outputs, against what it reported.
    cross_check: Annotated[int, Field(ge=0, le=100)] = 5
    cache_prompts: bool | None = None  # llama.cpp's `cache_prompt`; None: as the server does


class Event(_Part):
    """A line of the output: progress once a second, then one `done` or one `failed`."""

    event: Literal["progress", "done", "failed"]
    # progress: {"sent", "ended", "failed", "in_flight", "elapsed_s", "of_s", "warming_up"}
    progress: dict[str, float | bool] = {}
    # done: `Figures` of apps.capacity.load.measures as JSON, and the records' file (gzip, JSON
    # Lines, in the folder that --records names) or "".
    figures: dict[str, object] = {}
    records: str = ""
    code: str = ""  # failed: an error's code
    message: str = ""
