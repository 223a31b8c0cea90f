"""What a load test is to do: which loads, how often, within what bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from apps.capacity.load.types import Bounds, Positive, Promises

MOST_POINTS = 200
MOST_SECONDS = 6 * 3600.0


class Plan(BaseModel):
    """sweep: each of `loads`, `repeats` times. knee: a search between the ends of `loads`, and
    `repeats` at the bracket that is left. Both: the sweep, then the search between its points."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["sweep", "knee", "sweep+knee"]
    arrivals: Literal["poisson", "constant", "closed", "trace"] = "poisson"
    loads: Annotated[tuple[Positive, ...], Field(min_length=1, max_length=50)]
    repeats: Annotated[int, Field(ge=1, le=20)] = 3
    # The search ends when high / low is at most this; of closed loops, at neighbours too.
    tightness: Annotated[float, Field(gt=1.0, le=4.0)] = 1.15
    promises: Promises = Promises()
    bounds: Bounds = Bounds()
    self_test: bool = True
    most_s: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 1800.0  # of the whole test
    most_requests: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    seed: int = 0

    @model_validator(mode="after")
    def _can_be_searched(self) -> Plan:
        if "knee" in self.mode:
            promises = self.promises
            if not (promises.ttft_ms or promises.tpot_ms or promises.e2e_ms):
                raise ValueError("a knee is the highest load that keeps a promise: give one")
        if len(self.loads) * self.repeats > MOST_POINTS:
            raise ValueError(f"at most {MOST_POINTS} points")
        return self


class Knee(BaseModel):
    """The highest load that keeps the promises, and how surely."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    found: bool
    # Why not: "never_kept" (not even the lowest load), "always_kept" (even the highest), "stopped",
    # "out_of_time", "untrustworthy" (the generator was late).
    reason: str = ""
    low: float | None = None  # the highest load that kept them in its repeats' mean
    high: float | None = None  # the lowest that did not
    load: float | None = None  # where the good share crosses the wanted one, between them
    load_low: float | None = None  # 95 % interval of that (apps.capacity.loadtests.crossing)
    load_high: float | None = None
    arrivals: str = ""
    # At `low`, means over the repeats:
    output_per_s: float | None = None
    input_per_s: float | None = None
    requests_per_s: float | None = None
    repeats: int = 0
