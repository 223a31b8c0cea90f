"""A load test as its costs are computed from: what the machine made at the knee, and how surely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pydantic import ValidationError

from apps.capacity.economics.rates import exact
from apps.capacity.economics.splitting import Alone, Split, Throughput, alone, input_share_of_cost
from apps.capacity.errors import PlanInvalid
from apps.capacity.load.measures import Figures
from apps.capacity.load.types import Target
from apps.capacity.loadtests.plan import Knee, Plan
from apps.capacity.models import LoadPoint, LoadTest

MOST_GPUS = 100_000
# Why a search that did not find its knee has a load that kept the promises all the same: then it
# is the highest that was seen to, and what tokens cost there is the most that they would.
HIGHEST_KEPT = {
    "always_kept": "even the highest load that was tried kept the promises",
    "out_of_time": "the search ran out of time before the bracket was tight",
}


@dataclass(frozen=True)
class Measured:
    """Figures of one finished test; those at the knee are means over its repeats there."""

    test: LoadTest
    knee: Knee
    plan: Plan
    load: float  # the highest that kept the promises, where the throughput was measured
    made: Throughput
    # Within the knee's 95 % interval, on straight lines between the loads that were measured; None:
    # it has no interval, or too few loads were measured to read them off.
    least: Throughput | None
    most: Throughput | None
    alone: Alone | None  # at the lightest load
    alone_load: float | None
    requests: int  # at the knee, over all repeats, with those that failed
    failed: int
    cached_share: Fraction | None  # of the tokens read there; None: the server does not tell
    at_most: str  # why the costs are an upper bound; "" where the knee was found

    @property
    def upstream(self) -> str:
        return str(self.test.target.get("upstream", ""))

    @property
    def model(self) -> str:
        """As the conditions call it, else as the server is asked for it."""
        return str(self.test.conditions.get("model") or self.test.target.get("model", ""))

    @property
    def gpu(self) -> str:
        return str(self.test.conditions.get("gpu") or "")

    @property
    def gpus(self) -> int:
        """At least one: a price of a GPU's hour is for each of them."""
        gpus = self.test.conditions.get("gpus")
        return gpus if isinstance(gpus, int) and 0 < gpus <= MOST_GPUS else 1

    @property
    def machine(self) -> str:
        """In words: "2 cores, 8 GiB", "4 × H100 SXM, 64 cores"."""
        conditions = self.test.conditions
        gpus, gpu = conditions.get("gpus") or 0, conditions.get("gpu") or ""
        words = [f"{gpus} × {gpu}" if gpus else "", str(conditions.get("machine") or "")]
        return ", ".join(word for word in words if word) or "a machine that is not described"

    @property
    def on_output(self) -> Split:
        """All of the cost on the tokens written."""
        return Split(Fraction(0), self.made)

    @property
    def by_time(self) -> Split | None:
        """By the time that each kind takes alone; None where that was not measured."""
        if self.alone is None:
            return None
        return Split(input_share_of_cost(self.alone, self.made), self.made)


def measure(test: LoadTest, points: Sequence[LoadPoint]) -> Measured | None:
    """None where the test has no load that kept the promises, or no tokens there.

    `points` are those of the test, without the self-test.
    """
    try:
        knee = Knee.model_validate(test.result.get("knee"))
        plan = Plan.model_validate(test.plan)
        target = Target.model_validate(test.target)
        rows = [(point, Figures.model_validate(point.figures)) for point in points]
    except (ValidationError, AttributeError):
        return None
    at_most = "" if knee.found else HIGHEST_KEPT.get(knee.reason)
    made = _throughput(knee.input_per_s, knee.output_per_s)
    # A server that answers at once, of the generator's self-test, costs nothing to anybody.
    if target.kind == "null" or at_most is None or knee.low is None or made is None:
        return None
    by_load = _by_load(rows)
    least, most = _ends(by_load, knee, made)
    at_knee = by_load.get(knee.low, [])
    light = min(by_load, default=None)
    return Measured(
        test=test,
        knee=knee,
        plan=plan,
        load=knee.low,
        made=made,
        least=least,
        most=most,
        alone=_alone(by_load[light]) if light is not None else None,
        alone_load=light,
        requests=sum(figures.requests for figures in at_knee),
        failed=sum(figures.failed for figures in at_knee),
        cached_share=_cached(at_knee),
        at_most=at_most,
    )


def _throughput(read: float | None, written: float | None) -> Throughput | None:
    """None where nothing was written, or nothing is known of it."""
    try:
        made = Throughput(exact(read or 0.0), exact(written or 0.0))
    except PlanInvalid:
        return None
    return made if made.output_per_s > 0 and made.input_per_s > 0 else None


def _by_load(rows: Sequence[tuple[LoadPoint, Figures]]) -> dict[float, list[Figures]]:
    """Points of a stopped measurement are shorter than the others, and left out; and those of a
    late generator, where others are at their load."""
    found: dict[float, list[Figures]] = {}
    for point, figures in rows:
        if not figures.stopped and figures.complete:
            found.setdefault(point.load, []).append(figures)
    return {
        load: [each for each in figures if each.client.is_trustworthy] or figures
        for load, figures in found.items()
    }


def _ends(
    by_load: dict[float, list[Figures]], knee: Knee, made: Throughput
) -> tuple[Throughput | None, Throughput | None]:
    """The least and the most within the interval: beyond the knee a throughput may fall again.

    What was measured at the knee is taken with them, for that may lie below the interval.
    """
    low, high = knee.load_low, knee.load_high
    if low is None or high is None or len(by_load) < 2:
        return None, None
    inner = [load for load in by_load if low < load < high]
    within = [made, *(_at(by_load, load) for load in (low, high, *inner))]
    return _extreme(within, min), _extreme(within, max)


def _extreme(
    within: Sequence[Throughput], which: Callable[[Sequence[Fraction]], Fraction]
) -> Throughput:
    return Throughput(
        which([each.input_per_s for each in within]), which([each.output_per_s for each in within])
    )


def _at(by_load: dict[float, list[Figures]], load: float) -> Throughput:
    """On the straight line between the loads that were measured next to it; beyond them, the
    outermost."""
    means = {each: _mean(figures) for each, figures in by_load.items()}
    below = max((each for each in means if each <= load), default=min(means))
    above = min((each for each in means if each >= load), default=max(means))
    if above <= below:
        return means[below]
    part = (exact(load) - exact(below)) / (exact(above) - exact(below))
    return Throughput(
        means[below].input_per_s * (1 - part) + means[above].input_per_s * part,
        means[below].output_per_s * (1 - part) + means[above].output_per_s * part,
    )


def _mean(figures: Sequence[Figures]) -> Throughput:
    return Throughput(
        sum((exact(each.input_per_s) for each in figures), Fraction(0)) / len(figures),
        sum((exact(each.output_per_s) for each in figures), Fraction(0)) / len(figures),
    )


def _alone(figures: Sequence[Figures]) -> Alone | None:
    """Means over the repeats, each weighted by its requests."""
    known = [each for each in figures if (each.ttft_sent or each.ttft) and each.tpot]
    requests = sum(each.complete for each in known)
    uncached = sum(each.prompt_tokens - each.cached_tokens for each in known)
    if not requests or uncached <= 0:
        return None
    try:
        return alone(
            ttft_ms=sum((exact(_ttft_ms(each)) * each.complete for each in known), Fraction(0))
            / requests,
            uncached_tokens=Fraction(uncached, requests),
            tpot_ms=sum(
                (exact(each.tpot.mean_ms) * each.complete for each in known if each.tpot),
                Fraction(0),
            )
            / requests,
        )
    except PlanInvalid:  # a server that writes all at once
        return None


def _ttft_ms(figures: Figures) -> float:
    """From when it was sent: the generator's own lateness is no work of the machine."""
    found = figures.ttft_sent or figures.ttft
    return found.mean_ms if found else 0.0


def _cached(figures: Sequence[Figures]) -> Fraction | None:
    told = [each for each in figures if each.cached_share is not None]
    read = sum(each.prompt_tokens for each in told)
    if not told or not read:
        return None
    return min(Fraction(1), Fraction(sum(each.cached_tokens for each in told), read))
