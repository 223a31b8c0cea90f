"""Arrivals and lengths by seed."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest

from apps.capacity.errors import WorkloadInvalid
from apps.capacity.load.schedule import offered_per_s, open_loop, wanted_lengths
from apps.capacity.load.types import Arrivals, Bounds, Lengths, TraceRow, Workload
from tests.capacity.load.jobs import job


def _synthetic(**lengths: float) -> Workload:
    return Workload(kind="synthetic", prompt=Lengths(**lengths), output=Lengths(mean=10), seed=3)


def test_poisson_gaps_are_exponential() -> None:
    times = open_loop(job("poisson", 20, duration_s=1000))
    gaps = np.array([after - before for before, after in pairwise(times)])
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 20, rel=0.03)  # as large as the mean
    assert (gaps > 3 / 20).mean() == pytest.approx(np.exp(-3), rel=0.1)


def test_constant_gaps_are_alike() -> None:
    assert open_loop(job("constant", 4, duration_s=1)) == [0, 0.25, 0.5, 0.75]


def test_bounds_end_the_sending() -> None:
    times = open_loop(job("constant", 4, bounds={"requests": 3}))
    assert times == [0, 0.25, 0.5]
    assert offered_per_s(times, Bounds(requests=3)) == 4
    assert offered_per_s([0.0, 0.5], Bounds(duration_s=4)) == 0.5


def test_lengths_are_drawn_within_their_ends() -> None:
    lengths = _synthetic(mean=100, stdev=50, least=60, most=150)
    drawn = [each.prompt_tokens for each in islice(wanted_lengths(lengths, 1), 2000)]
    assert (min(drawn), max(drawn)) == (60, 150)
    assert np.mean(drawn) == pytest.approx(103, abs=4)
    again = [each.prompt_tokens for each in islice(wanted_lengths(lengths, 1), 2000)]
    other = [each.prompt_tokens for each in islice(wanted_lengths(lengths, 2), 2000)]
    assert drawn == again != other


def test_a_spread_of_nothing_is_the_mean() -> None:
    lengths = wanted_lengths(_synthetic(mean=100), 1)
    assert {each.prompt_tokens for each in islice(lengths, 50)} == {100}


def test_a_trace_keeps_its_order_and_begins_again() -> None:
    rows = tuple(TraceRow(prompt_tokens=n, output_tokens=1) for n in (5, 6, 7))
    lengths = wanted_lengths(Workload(kind="trace", rows=rows), 1)
    assert [each.prompt_tokens for each in islice(lengths, 5)] == [5, 6, 7, 5, 6]


def test_lengths_come_from_the_rows_alone() -> None:
    rows = tuple(TraceRow(prompt_tokens=n, output_tokens=n) for n in (5, 600))
    lengths = islice(wanted_lengths(Workload(kind="lengths", rows=rows), 1), 100)
    assert {(each.prompt_tokens, each.output_tokens) for each in lengths} == {(5, 5), (600, 600)}


def test_only_a_trace_has_arrivals_to_replay() -> None:
    with pytest.raises(WorkloadInvalid):
        open_loop(job(arrivals=Arrivals(kind="trace", load=1.0)))
