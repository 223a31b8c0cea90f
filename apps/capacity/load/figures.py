"""From records to figures, exactly as measures.py says. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from apps.capacity.load.lag import Gauge
from apps.capacity.load.measures import Client, CrossCheck, Figures, Percentiles, Record
from apps.capacity.load.types import Promises

LATE_MS = 10.0
TIMER_MS = 1.0  # whoever is less late than this is believed: other processes take turns, too
CPU_MOST = 0.9


@dataclass(frozen=True)
class Circumstances:
    """What is known of a point besides its requests."""

    offered_per_s: float
    client: Client
    promises: Promises
    server: Mapping[str, float] = field(default_factory=dict)
    cross_check: CrossCheck | None = None
    stopped: bool = False


def figures_of(records: Sequence[Record], known: Circumstances) -> Figures:
    """The figures of one point, of whose requests `records` are all."""
    complete = [each for each in records if each.outcome == "complete"]
    duration_s = _duration_s(records)
    output_tokens = sum(each.output_tokens for each in complete)
    prompt_tokens = sum(each.prompt_tokens for each in complete)
    figures = Figures(
        requests=len(records),
        complete=len(complete),
        failed=len(records) - len(complete),
        errors=dict(Counter(each.error_code for each in records if each.outcome != "complete")),
        offered_per_s=known.offered_per_s,
        duration_s=duration_s,
        concurrency_mean=_per(sum(_held_s(each) for each in records), duration_s),
        concurrency_max=_most_at_once(records),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        wanted_prompt_tokens=sum(each.wanted_prompt_tokens for each in complete),
        wanted_output_tokens=sum(each.wanted_output_tokens for each in complete),
        cached_tokens=sum(each.cached_tokens for each in complete),
        cached_share=_cached_share(complete),
        tokens_reported=sum(each.tokens_reported for each in complete),
        pieces_per_token=_pieces_per_token(complete),
        output_per_s=_per(output_tokens, duration_s),
        input_per_s=_per(prompt_tokens, duration_s),
        requests_per_s=_per(len(complete), duration_s),
        ttft=percentiles(_each(complete, ttft_ms)),
        ttft_sent=percentiles(_each(complete, _ttft_sent_ms)),
        tpot=percentiles(_each(complete, tpot_ms)),
        itl=percentiles(gap for each in complete for gap in gaps_ms(each)),
        e2e=percentiles(_each(complete, e2e_ms)),
        server=dict(known.server),
        client=known.client,
        cross_check=known.cross_check,
        stopped=known.stopped,
    )
    return figures.model_copy(update=_goodput(records, known, duration_s))


def ttft_ms(record: Record) -> float | None:
    """first - intended; None for a request that is not complete."""
    if record.outcome != "complete" or record.first_s is None:
        return None
    return (record.first_s - record.intended_s) * 1000


def tpot_ms(record: Record) -> float | None:
    """(last - first) / (n - 1); None for one token, or a request that is not complete."""
    if record.outcome != "complete" or record.output_tokens < 2:
        return None
    if record.first_s is None or record.last_s is None:
        return None
    return (record.last_s - record.first_s) * 1000 / (record.output_tokens - 1)


def e2e_ms(record: Record) -> float | None:
    """end - intended; None for a request that is not complete."""
    if record.outcome != "complete" or record.end_s is None:
        return None
    return (record.end_s - record.intended_s) * 1000


def gaps_ms(record: Record) -> list[float]:
    """Milliseconds between the pieces of one answer."""
    return [(after - before) * 1000 for before, after in pairwise(record.pieces_s)]


def is_good(record: Record, promises: Promises) -> bool:
    """Whether a request is complete and kept every promise that was given.

    An answer of one token has no time between tokens to break a promise with.
    """
    if record.outcome != "complete":
        return False
    kept = (
        (ttft_ms(record), promises.ttft_ms),
        (tpot_ms(record), promises.tpot_ms),
        (e2e_ms(record), promises.e2e_ms),
    )
    return all(value is None or most is None or value <= most for value, most in kept)


def are_given(promises: Promises) -> bool:
    """Whether there is anything to be kept."""
    return any(each is not None for each in (promises.ttft_ms, promises.tpot_ms, promises.e2e_ms))


def percentiles(values_ms: Iterable[float]) -> Percentiles | None:
    """None of no values."""
    values = np.fromiter(values_ms, dtype=np.float64)
    if not values.size:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99]).tolist()
    return Percentiles(
        count=int(values.size),
        mean_ms=float(values.mean()),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
        max_ms=float(values.max()),
    )


def client_of(gauge: Gauge, records: Sequence[Record], *, is_open: bool, is_null: bool) -> Client:
    """How the generator fared. Against the null server TTFT is its own time, and bounds nothing."""
    late = [
        (each.begun_s - each.intended_s) * 1000
        for each in records
        if is_open and each.begun_s is not None
    ]
    lag, lateness = percentiles(each * 1000 for each in gauge.lags_s), percentiles(late)
    ttft = percentiles(_each(records, ttft_ms))
    most = LATE_MS
    if ttft is not None and not is_null:
        most = max(TIMER_MS, min(LATE_MS, ttft.p50_ms / 10))
    lag_ms, late_ms = lag.p99_ms if lag else 0.0, lateness.p99_ms if lateness else 0.0
    return Client(
        cpu_share=gauge.cpu_share,
        lag_p50_ms=lag.p50_ms if lag else 0.0,
        lag_p99_ms=lag_ms,
        lag_max_ms=lag.max_ms if lag else 0.0,
        late_p99_ms=late_ms,
        late_max_ms=lateness.max_ms if lateness else 0.0,
        is_trustworthy=max(lag_ms, late_ms) < most and gauge.cpu_share < CPU_MOST,
    )


def _each(records: Iterable[Record], measure: Callable[[Record], float | None]) -> Iterator[float]:
    return (value for each in records if (value := measure(each)) is not None)


def _ttft_sent_ms(record: Record) -> float | None:
    if record.first_s is None or record.sent_s is None:
        return None
    return (record.first_s - record.sent_s) * 1000


def _goodput(
    records: Sequence[Record], known: Circumstances, duration_s: float
) -> dict[str, int | float | bool | None]:
    if not are_given(known.promises) or not records:
        return {}
    good = sum(is_good(each, known.promises) for each in records)
    share = good / len(records)
    return {
        "good": good,
        "good_share": share,
        "goodput_per_s": _per(good, duration_s),
        # A point that a person cut short has kept and broken nothing.
        "keeps_promises": None if known.stopped else share >= known.promises.share,
    }


def _duration_s(records: Sequence[Record]) -> float:
    ends = [each.end_s for each in records if each.end_s is not None]
    return max(0.0, max(ends) - min(each.intended_s for each in records)) if ends else 0.0


def _held_s(record: Record) -> float:
    return record.end_s - record.sent_s if record.end_s and record.sent_s is not None else 0.0


def _most_at_once(records: Sequence[Record]) -> int:
    changes = [(each.sent_s, 1) for each in records if each.sent_s is not None and each.end_s]
    changes += [(each.end_s, -1) for each in records if each.sent_s is not None and each.end_s]
    most = now = 0
    for _, change in sorted(changes):  # at the same instant, ends come before begins
        now += change
        most = max(most, now)
    return most


def _cached_share(complete: Sequence[Record]) -> float | None:
    told = [each for each in complete if each.cached_reported]
    prompt = sum(each.prompt_tokens for each in told)
    return sum(each.cached_tokens for each in told) / prompt if prompt else None


def _pieces_per_token(complete: Sequence[Record]) -> float | None:
    told = [each for each in complete if each.tokens_reported and each.pieces_s]
    tokens = sum(each.output_tokens for each in told)
    return sum(len(each.pieces_s) for each in told) / tokens if tokens else None


def _per(value: float, duration_s: float) -> float:
    return value / duration_s if duration_s > 0 else 0.0
