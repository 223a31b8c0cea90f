"""Figures from records, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.capacity.load.figures import (
    Circumstances,
    client_of,
    figures_of,
    is_good,
    percentiles,
    tpot_ms,
)
from apps.capacity.load.lag import Gauge
from apps.capacity.load.measures import Client, Figures, Record
from apps.capacity.load.types import Promises

CLIENT = Client(
    cpu_share=0.1,
    lag_p50_ms=0,
    lag_p99_ms=0,
    lag_max_ms=0,
    late_p99_ms=0,
    late_max_ms=0,
    is_trustworthy=True,
)


def record(number: int = 0, **more: Any) -> Record:
    """Meant at second 1, sent at 1.1, first text at 1.5, last at 2.5, ended at 2.6; 11 tokens."""
    return Record(
        **{
            "number": number,
            "intended_s": 1.0,
            "begun_s": 1.05,
            "sent_s": 1.1,
            "first_s": 1.5,
            "last_s": 2.5,
            "end_s": 2.6,
            "outcome": "complete",
            "prompt_tokens": 100,
            "output_tokens": 11,
            "pieces_s": (1.5, 2.0, 2.5),
            **more,
        }
    )


def failed(number: int = 1, **more: Any) -> Record:
    return record(number, **{"outcome": "failed", "error_code": "reset", **more})


def figures(*records: Record, **more: Any) -> Figures:
    known = {"offered_per_s": 1.0, "client": CLIENT, "promises": Promises(), **more}
    return figures_of(records, Circumstances(**known))


def test_each_latency_by_its_formula() -> None:
    found = figures(record())
    assert found.ttft is not None
    assert found.ttft_sent is not None
    assert found.tpot is not None
    assert found.itl is not None
    assert found.e2e is not None
    assert found.ttft.p50_ms == pytest.approx(500)
    assert found.ttft_sent.p50_ms == pytest.approx(400)
    assert found.tpot.p50_ms == pytest.approx(100)
    assert (found.itl.count, found.itl.p50_ms) == (2, pytest.approx(500))
    assert found.e2e.p50_ms == pytest.approx(1600)


def test_failed_requests_are_in_the_counts_and_not_in_the_latencies() -> None:
    found = figures(record(), failed(first_s=9.0, end_s=9.0), failed(2, error_code="http_429"))
    assert (found.requests, found.complete, found.failed) == (3, 1, 2)
    assert found.errors == {"reset": 1, "http_429": 1}
    assert found.ttft is not None
    assert found.ttft.count == 1
    assert (found.output_tokens, found.prompt_tokens) == (11, 100)


def test_rates_are_over_first_intended_to_last_end() -> None:
    found = figures(record(), record(1, intended_s=0.6), failed(end_s=4.6))
    assert found.duration_s == pytest.approx(4.0)
    assert found.output_per_s == pytest.approx(22 / 4)
    assert found.input_per_s == pytest.approx(200 / 4)
    assert found.requests_per_s == pytest.approx(2 / 4)


def test_concurrency_is_the_time_that_requests_were_held() -> None:
    apart = record(1, intended_s=2.6, sent_s=2.6, first_s=2.7, last_s=2.8, end_s=4.0)
    found = figures(record(), record(2, sent_s=1.2), apart)
    assert found.concurrency_max == 2  # one begins as the others end
    assert found.concurrency_mean == pytest.approx((1.5 + 1.4 + 1.4) / 3.0)


def test_answers_of_one_token_have_no_time_between_tokens() -> None:
    assert tpot_ms(record(output_tokens=1)) is None
    assert figures(record(output_tokens=1)).tpot is None
    assert is_good(record(output_tokens=1), Promises(tpot_ms=0.001))


@pytest.mark.parametrize(
    ("promises", "kept"),
    [
        (Promises(ttft_ms=501), True),
        (Promises(ttft_ms=499), False),
        (Promises(tpot_ms=101), True),
        (Promises(tpot_ms=99), False),
        (Promises(e2e_ms=1601), True),
        (Promises(e2e_ms=1599), False),
        (Promises(ttft_ms=501, tpot_ms=101, e2e_ms=1599), False),
    ],
)
def test_every_promise_has_to_be_kept(promises: Promises, kept: bool) -> None:
    assert is_good(record(), promises) is kept
    assert not is_good(failed(), promises)


def test_without_a_promise_nothing_is_good_or_bad() -> None:
    found = figures(record())
    assert (found.good, found.good_share, found.keeps_promises) == (None, None, None)


def test_goodput_counts_what_kept_the_promises() -> None:
    promises = Promises(ttft_ms=600, share=0.6)
    found = figures(record(), record(1, first_s=1.7), failed(2, end_s=3.0), promises=promises)
    assert found.good == 1
    assert found.good_share == pytest.approx(1 / 3)
    assert found.goodput_per_s == pytest.approx(1 / 2)
    assert found.keeps_promises is False


def test_a_point_cut_short_keeps_and_breaks_nothing() -> None:
    found = figures(record(), promises=Promises(ttft_ms=1), stopped=True)
    assert found.stopped
    assert found.keeps_promises is None


def test_no_requests_are_no_figures() -> None:
    found = figures()
    assert (found.requests, found.duration_s, found.output_per_s, found.ttft) == (0, 0, 0, None)


def test_cached_tokens_are_a_share_of_those_that_told() -> None:
    told = record(cached_reported=True, cached_tokens=25)
    assert figures(told, record(1)).cached_share == pytest.approx(0.25)
    assert figures(record()).cached_share is None


def test_pieces_are_told_from_tokens() -> None:
    assert figures(record()).pieces_per_token == pytest.approx(3 / 11)
    assert figures(record(tokens_reported=False)).tokens_reported == 0


def test_percentiles_are_those_of_numpy() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    found = percentiles(values)
    assert found is not None
    told = (found.p50_ms, found.p95_ms, found.p99_ms)
    assert told == pytest.approx(tuple(np.percentile(values, [50, 95, 99])))
    assert (found.count, found.mean_ms, found.max_ms) == (5, 6.2, 16.0)
    assert percentiles([]) is None


def _client(lags_ms: list[float], late_ms: float = 0.0, **more: Any) -> Client:
    gauge = Gauge(cpu_s=more.pop("cpu_s", 1.0), elapsed_s=10.0)
    gauge.lags_s.extend(each / 1000 for each in lags_ms)
    first_s = 1.0 + more.pop("ttft_ms", 1000.0) / 1000
    sent = record(begun_s=1.0 + late_ms / 1000, first_s=first_s)
    return client_of(gauge, [sent], is_open=True, is_null=more.pop("is_null", False))


def test_a_late_or_busy_client_is_not_believed() -> None:
    assert _client([1.0]).is_trustworthy
    assert not _client([11.0]).is_trustworthy
    assert not _client([1.0], late_ms=11.0).is_trustworthy
    assert not _client([1.0], cpu_s=9.5).is_trustworthy


def test_a_client_has_to_be_ten_times_as_quick_as_what_it_measures() -> None:
    assert _client([4.0], ttft_ms=50.0).is_trustworthy
    assert not _client([6.0], ttft_ms=50.0).is_trustworthy
    assert _client([0.9], ttft_ms=5.0).is_trustworthy  # schedulers are no better
    assert not _client([1.1], ttft_ms=5.0).is_trustworthy
    assert _client([6.0], ttft_ms=1.0, is_null=True).is_trustworthy


def test_lateness_is_of_open_loops() -> None:
    sent = record(begun_s=3.0)
    assert client_of(Gauge(), [sent], is_open=True, is_null=False).late_max_ms == 2000
    assert client_of(Gauge(), [sent], is_open=False, is_null=False).late_max_ms == 0
