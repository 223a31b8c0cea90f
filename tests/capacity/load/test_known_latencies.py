"""Against servers whose latencies are known, on a virtual clock: what comes out is the truth."""

from __future__ import annotations

import numpy as np
import pytest

from apps.capacity.load.measures import Figures, Percentiles
from apps.capacity.load.running import MOST_IN_FLIGHT
from apps.capacity.load.types import Arrivals, Promises, TraceRow, Workload
from tests.capacity.load.double import Double
from tests.capacity.load.jobs import job, measure

WITHIN = 0.02  # what is asked for; here it is exact


def _truth(values_s: list[float]) -> tuple[float, ...]:
    return tuple(np.percentile(np.array(values_s) * 1000, [50, 95, 99]))


def _told(figures: Percentiles | None) -> tuple[float, ...]:
    assert figures is not None
    return figures.p50_ms, figures.p95_ms, figures.p99_ms


def _p99(figures: Figures) -> float:
    assert figures.ttft is not None
    return figures.ttft.p99_ms


@pytest.mark.parametrize("kind", ["poisson", "constant", "closed"])
def test_fixed_latencies_are_recovered(kind: str) -> None:
    double = Double(first_s=0.3, gap_s=0.02)
    figures, _ = measure(job(kind, 4, tokens=11), double)
    assert figures.complete == figures.requests == len(double.arrivals_s) > 100
    assert _told(figures.ttft) == pytest.approx((300, 300, 300), abs=0.01)
    assert _told(figures.tpot) == pytest.approx((20, 20, 20), abs=0.01)
    assert _told(figures.itl) == pytest.approx((20, 20, 20), abs=0.01)
    assert _told(figures.e2e) == pytest.approx((500, 500, 500), abs=0.01)
    assert figures.itl is not None
    assert figures.itl.count == 10 * figures.requests


@pytest.mark.parametrize("is_serial", [False, True])
def test_a_stall_at_every_tenth_request_is_recovered(is_serial: bool) -> None:
    double = Double(first_s=0.05, gap_s=0.005, stall_every=10, stall_s=0.6, is_serial=is_serial)
    figures, _ = measure(job("poisson", 5, duration_s=200), double)
    assert figures.complete == figures.requests == len(double.ttfts_s) > 900
    assert _told(figures.ttft) == pytest.approx(_truth(double.ttfts_s), rel=WITHIN)
    assert _p99(figures) > 600


def test_open_loop_shows_the_stall_that_a_closed_loop_hides() -> None:
    """A server that stands still for one second in ten: one request of a closed loop meets it,
    a tenth of all those that people would have sent does."""
    stalled = {"first_s": 0.05, "gap_s": 0.0, "pause_every_s": 10.0, "pause_s": 1.0}
    hidden, _ = measure(job("closed", 1, duration_s=100, tokens=1), Double(**stalled))
    double = Double(**stalled)
    shown, _ = measure(job("constant", 18, duration_s=100, tokens=1), double)
    assert hidden.requests == pytest.approx(shown.requests, rel=0.02)  # the same load
    assert _p99(hidden) == pytest.approx(50, abs=0.1)
    assert _p99(shown) == pytest.approx(_truth(double.ttfts_s)[2], rel=WITHIN)
    assert _p99(shown) > 900


def test_open_loop_shows_the_queue_behind_a_stall() -> None:
    """One at a time, every tenth stalls: others wait behind it, whom a closed loop never sends."""
    stalled = {"first_s": 0.05, "gap_s": 0.0, "stall_every": 10, "stall_s": 0.8, "is_serial": True}
    hidden, _ = measure(job("closed", 1, duration_s=200, tokens=1), Double(**stalled))
    shown, _ = measure(
        job("poisson", hidden.requests_per_s * 0.8, duration_s=200, tokens=1), Double(**stalled)
    )
    assert hidden.ttft is not None
    assert shown.ttft is not None
    assert hidden.ttft.p50_ms == pytest.approx(50, abs=0.1)
    assert hidden.ttft.p99_ms == pytest.approx(850, abs=0.1)
    assert shown.ttft.p50_ms > 2 * hidden.ttft.p50_ms
    assert shown.ttft.p99_ms > 1.5 * hidden.ttft.p99_ms


def test_latency_is_counted_from_the_intended_start() -> None:
    """An overloaded server that works one at a time: the n-th waits for all before it."""
    double = Double(first_s=0.5, gap_s=0.0, is_serial=True)
    figures, point = measure(job("constant", 4, duration_s=10, tokens=1), double)
    waits = [r.first_s - r.intended_s for r in point.records if r.first_s is not None]
    assert waits == pytest.approx([0.5 + 0.25 * n for n in range(40)], abs=1e-5)
    assert figures.client.is_trustworthy


def test_failures_and_requests_never_sent_are_in_the_denominator() -> None:
    """A server that never answers fills the generator's own bound."""
    double = Double(first_s=10_000.0, gap_s=0.0)
    rate = MOST_IN_FLIGHT / 10
    bounds = {"request_timeout_s": 500.0, "drain_s": 5.0}
    wanted = job("constant", rate, duration_s=15, bounds=bounds, promises=Promises(ttft_ms=100))
    # One-token requests of the calibration would wait, too.
    double._calibrated = 0
    double.pacing = _but_calibration(double)  # type: ignore[method-assign]
    figures, _ = measure(wanted, double)
    assert figures.requests == 15 * rate
    assert figures.errors == {"drain": MOST_IN_FLIGHT, "crowded": 5 * rate}
    assert (figures.complete, figures.good, figures.good_share) == (0, 0, 0.0)
    assert figures.keeps_promises is False
    assert figures.ttft is None


def _but_calibration(double: Double):  # type: ignore[no-untyped-def]
    slow = double.pacing
    return lambda tokens, at: [at] if tokens == 1 else slow(tokens, at)


def test_a_promise_is_kept_by_share() -> None:
    stalled = Double(first_s=0.05, gap_s=0.0, stall_every=10, stall_s=1.0)
    promises = Promises(ttft_ms=100, share=0.9)
    bounds = {"requests": 200}
    figures, _ = measure(job("constant", 5, bounds=bounds, promises=promises), stalled)
    assert (figures.requests, figures.good) == (200, 180)
    assert figures.keeps_promises is True
    stricter = Promises(ttft_ms=100, share=0.91)
    figures, _ = measure(job("constant", 5, bounds=bounds, promises=stricter), stalled)
    assert figures.keeps_promises is False


def test_closed_loop_holds_as_many_at_a_time() -> None:
    figures, _ = measure(job("closed", 8, duration_s=30), Double(first_s=0.3, gap_s=0.05))
    assert figures.concurrency_max == 8
    assert figures.concurrency_mean == pytest.approx(8, rel=0.02)
    assert figures.requests in range(8 * 60, 8 * 61 + 1)  # half a second each


def test_open_loop_never_waits() -> None:
    figures, point = measure(job("constant", 10, duration_s=5), Double(first_s=3.0, gap_s=0.0))
    assert [r.begun_s for r in point.records] == pytest.approx([n / 10 for n in range(50)])
    assert figures.concurrency_max == 30
    assert figures.client.late_max_ms == pytest.approx(0, abs=0.001)


def test_a_trace_is_replayed_as_fast_as_wanted() -> None:
    rows = tuple(
        TraceRow(at_s=at, prompt_tokens=40, output_tokens=n) for at, n in ((0, 3), (4, 5), (9, 7))
    )
    wanted = job(
        workload=Workload(kind="trace", rows=rows), arrivals=Arrivals(kind="trace", load=2.0)
    )
    figures, point = measure(wanted, Double(first_s=0.1, gap_s=0.01))
    assert [r.intended_s for r in point.records] == [0, 2, 4.5]
    assert [r.output_tokens for r in point.records] == [3, 5, 7]
    assert figures.output_tokens == 15


def test_the_warm_up_is_counted_in_nothing() -> None:
    bounds = {"warmup_requests": 7, "requests": 20}
    double = Double(first_s=0.1, gap_s=0.01)
    figures, point = measure(job("constant", 10, bounds=bounds), double)
    assert len(double.arrivals_s) == 27
    assert figures.requests == len(point.records) == 20


def test_the_same_seed_offers_the_same_load() -> None:
    runs = [measure(job(seed=seed), Double(first_s=0.1, gap_s=0.01))[1] for seed in (1, 1, 2)]
    times = [[each.intended_s for each in point.records] for point in runs]
    assert times[0] == times[1] != times[2]
