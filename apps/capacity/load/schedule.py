"""When requests are meant to be sent, and how long each is to be. Pure, and the same by seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, repeat, takewhile

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.types import Arrivals, Bounds, Job, Lengths, Workload


@dataclass(frozen=True)
class Wanted:
    """Token counts of one request."""

    prompt_tokens: int
    output_tokens: int


def wanted_lengths(workload: Workload, seed: int) -> Iterator[Wanted]:
    """Without end: drawn by `seed`; a trace's rows in their order, from the front again."""
    rng = random.Random(f"lengths/{workload.seed}/{seed}")  # noqa: S311 - not for secrets
    rows = [Wanted(row.prompt_tokens, row.output_tokens) for row in workload.rows]
    if workload.kind == "trace":
        return chain.from_iterable(repeat(rows))
    if workload.kind == "lengths":
        return (rng.choice(rows) for _ in count())
    if workload.prompt is None or workload.output is None:
        raise WorkloadInvalid("A synthetic workload needs lengths of prompts and outputs.")
    prompt, output = workload.prompt, workload.output
    return (Wanted(_drawn(prompt, rng), _drawn(output, rng)) for _ in count())


def _drawn(lengths: Lengths, rng: random.Random) -> int:
    value = round(rng.gauss(lengths.mean, lengths.stdev)) if lengths.stdev else lengths.mean
    return min(max(value, lengths.least), lengths.most)


def open_loop(job: Job) -> list[float]:
    """When each request of an open loop is to be sent, seconds from the point's begin."""
    return bounded(_times(job), job.bounds)


def bounded(times: Iterator[float], bounds: Bounds) -> list[float]:
    """The `times` within the point's duration, at most as many as it may have requests."""
    within = takewhile(lambda at: at < bounds.duration_s, times)
    return [at for at, _ in zip(within, range(bounds.requests), strict=False)]


def offered_per_s(times: list[float], bounds: Bounds) -> float:
    """Intended requests a second, over the time in which they were intended."""
    if len(times) == bounds.requests and times[-1] > times[0]:
        return (len(times) - 1) / (times[-1] - times[0])  # the bound on requests has ended it
    return len(times) / bounds.duration_s


def _times(job: Job) -> Iterator[float]:
    arrivals = job.arrivals
    if arrivals.kind == "poisson":
        return _poisson(arrivals.load, job.seed)
    if arrivals.kind == "constant":
        return (number / arrivals.load for number in count())
    if arrivals.kind == "trace":
        return _replayed(job.workload, arrivals)
    raise WorkloadInvalid("A closed loop has no times: a request begins when another has ended.")


def _poisson(per_s: float, seed: int) -> Iterator[float]:
    """A Poisson process: independent gaps, exponential with mean 1/rate."""
    rng = random.Random(f"arrivals/{seed}")  # noqa: S311
    at = 0.0
    while True:
        at += rng.expovariate(per_s)
        yield at


def _replayed(workload: Workload, arrivals: Arrivals) -> Iterator[float]:
    if workload.kind != "trace":
        raise WorkloadInvalid("Only a trace has arrivals to replay. Choose other arrivals.")
    return (row.at_s / arrivals.load for row in workload.rows)
