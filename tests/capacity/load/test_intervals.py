"""Intervals of good shares and of means."""

from __future__ import annotations

import numpy as np
import pytest

from apps.capacity.load.intervals import bootstrap_good_share, mean_interval, wilson
from apps.capacity.load.measures import Record
from apps.capacity.load.types import Promises
from tests.capacity.load.test_figures import failed, record

ANY = Promises(ttft_ms=10_000)


def _records(goods: list[bool]) -> list[Record]:
    return [
        record(n, intended_s=float(n), first_s=n + 0.1) if good else failed(n, intended_s=float(n))
        for n, good in enumerate(goods)
    ]


def test_the_share_is_over_all_repeats() -> None:
    found = bootstrap_good_share([_records([True] * 90), _records([False] * 10)], ANY)
    assert found.value == 0.9


def test_the_interval_is_as_wide_as_chance() -> None:
    rng = np.random.default_rng(1)
    found = bootstrap_good_share([_records([bool(rng.random() < 0.9) for _ in range(400)])], ANY)
    near = wilson(round(found.value * 400), 400)
    assert found.low == pytest.approx(near.low, abs=0.02)
    assert found.high == pytest.approx(near.high, abs=0.02)


def test_requests_that_failed_together_make_it_wider() -> None:
    rng = np.random.default_rng(1)
    alone = [bool(rng.random() < 0.9) for _ in range(400)]
    together = [(n // 40) % 10 != 5 for n in range(400)]
    widths = [
        (found := bootstrap_good_share([_records(goods)], ANY)).high - found.low
        for goods in (alone, together)
    ]
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("good", [True, False])
def test_all_alike_is_not_certain(good: bool) -> None:
    found = bootstrap_good_share([_records([good] * 20)], ANY)
    assert found.high - found.low > 0.1
    assert found.value == float(good)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_the_same_seed_gives_the_same_interval() -> None:
    repeats = [_records([n % 3 > 0 for n in range(50)])]
    assert bootstrap_good_share(repeats, ANY) == bootstrap_good_share(repeats, ANY)
    other = bootstrap_good_share(repeats, ANY, seed=1)
    assert other.value == bootstrap_good_share(repeats, ANY).value


def test_nine_of_ten_intervals_and_more_hold_the_truth() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(100):
        found = bootstrap_good_share([_records([rng.random() < 0.85 for _ in range(100)])], ANY)
        held += found.low <= 0.85 <= found.high
    assert held >= 88


def test_no_requests_have_no_share() -> None:
    with pytest.raises(ValueError, match="no requests"):
        bootstrap_good_share([[], []], ANY)


def test_a_mean_of_repeats_has_students_interval() -> None:
    found = mean_interval([9.0, 10.0, 11.0])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((10, 7.516, 12.484), abs=0.001)
    assert mean_interval([9.0]) is None
    assert mean_interval([]) is None


def test_wilson_as_in_the_tables() -> None:
    found = wilson(0, 10)
    assert (found.low, found.high) == pytest.approx((0, 0.2775), abs=0.001)
    found = wilson(45, 50)
    assert (found.low, found.high) == pytest.approx((0.7864, 0.9565), abs=0.001)
