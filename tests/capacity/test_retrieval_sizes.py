"""What vectors and their indexes take, against tables and indexes that are really built."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
from django.db import connection

from apps.capacity.errors import PlanInvalid
from apps.capacity.retrieval_planning import fits, queueing
from apps.capacity.retrieval_planning.scratch import scratch_table
from apps.capacity.retrieval_planning.sizes import PAGE, vector_bytes


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("dimensions", "count", "m"),
    [(384, 2000, 16), (384, 2000, 32), (768, 1000, 8), (1024, 800, 16)],
)
def test_bytes_are_those_of_a_table_and_an_index_that_were_built(
    dimensions: int, count: int, m: int
) -> None:
    vectors = np.random.default_rng(0).standard_normal((count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = vector_bytes(dimensions=dimensions, m=m)
    with scratch_table(dimensions) as scratch:
        scratch.add(vectors)
        _, hnsw = scratch.build_hnsw(m=m, ef_construction=64, memory_kb=65_536)
        assert hnsw / count == pytest.approx(expected.hnsw.value, rel=0.06)
        # PostgreSQL makes a table longer by up to 64 pages at once; some are still empty.
        spare = 64 * PAGE
        assert 0 <= scratch.size_of() - 0.97 * count * expected.table.value <= spare


@pytest.mark.django_db(transaction=True)
def test_the_scratch_table_is_gone_after_an_interruption() -> None:
    with suppress(KeyboardInterrupt), scratch_table(8) as scratch:
        scratch.add(np.eye(8, dtype=np.float32))
        raise KeyboardInterrupt
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('search.measure_vectors')")
        assert cursor.fetchone() == (None,)


@pytest.mark.django_db(transaction=True)
def test_search_is_measured_once_at_a_time() -> None:
    from apps.capacity.retrieval_planning.scratch import MeasurementRunning

    with scratch_table(8), pytest.raises(MeasurementRunning), scratch_table(8):
        pass


@pytest.mark.parametrize(("dimensions", "m"), [(0, 16), (4001, 16), (-1, 16), (384, 1), (384, 101)])
def test_sizes_that_cannot_be_are_refused(dimensions: int, m: int) -> None:
    with pytest.raises(PlanInvalid):
        vector_bytes(dimensions=dimensions, m=m)


def test_bits_take_a_fraction_of_halves() -> None:
    halves = vector_bytes(dimensions=384).hnsw.value
    assert vector_bytes(dimensions=384, storage="bit").hnsw.value < halves / 3


@pytest.mark.parametrize(
    ("per_s", "service_s", "cores", "expected"),
    # Worked by hand from C(c, a) = (a^c / c!) / (1 - a/c) / (sum + that).
    [(5.0, 0.1, 1, 0.5), (10.0, 0.1, 2, 1 / 3), (0.0, 0.1, 4, 0.0), (100.0, 0.1, 4, 1.0)],
)
def test_the_share_that_waits_is_erlangs(
    per_s: float, service_s: float, cores: int, expected: float
) -> None:
    share = queueing.waits_share(per_s=per_s, service_s=service_s, cores=cores)
    assert share == pytest.approx(expected)


def test_waiting_on_one_core_is_that_of_the_simple_queue() -> None:
    # M/M/1: P(wait > t) = rho * exp(-(mu - lambda) t), so t = ln(rho / 0.05) / (mu - lambda).
    wait = queueing.wait_p95_s(per_s=8, service_s=0.1, cores=1)
    assert wait == pytest.approx(math.log(0.8 / 0.05) / 2)


def test_the_highest_load_keeps_the_promise_and_no_core_too_busy() -> None:
    load = queueing.most_per_s(service_s=0.01, cores=2, p95_s=0.012, promise_s=1.0, busy_most=0.7)
    assert load == pytest.approx(140)
    tight = queueing.most_per_s(service_s=0.01, cores=2, p95_s=0.012, promise_s=0.02, busy_most=0.7)
    wait = queueing.wait_p95_s(per_s=tight, service_s=0.01, cores=2)
    assert 0 < tight < 140
    assert 0.012 + wait == pytest.approx(0.02, abs=1e-6)


def test_nothing_keeps_a_promise_that_one_search_breaks() -> None:
    never = queueing.most_per_s(service_s=0.1, cores=8, p95_s=0.2, promise_s=0.1, busy_most=0.7)
    assert never == 0.0


def _noisy(
    a: float, b: float, sizes: list[int], rng: np.random.Generator
) -> list[tuple[int, float]]:
    return [(n, (a + b * n) * (1 + 0.05 * float(rng.standard_normal()))) for n in sizes]


def test_the_band_holds_the_next_measurement_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        line = fits.fit("exact", _noisy(1.0, 0.001, [1000, 2000, 5000, 10_000, 20_000], rng))
        assert line is not None
        ((_, ms),) = _noisy(1.0, 0.001, [40_000], rng)
        low, high = line.band(40_000)
        held += low <= ms <= high
    assert 0.90 < held / 400 < 0.99


def test_where_a_line_crosses_is_between_its_bands() -> None:
    rng = np.random.default_rng(2)
    line = fits.fit("exact", _noisy(1.0, 0.001, [1000, 2000, 5000, 10_000, 20_000], rng))
    assert line is not None
    crossing = line.crosses(50.0)
    assert crossing.at is not None
    assert crossing.earliest is not None
    assert line.at(crossing.at) == pytest.approx(50.0)
    assert crossing.earliest < crossing.at
    assert crossing.latest is None or crossing.latest > crossing.at
    assert crossing.at == pytest.approx(49_000, rel=0.15)


def test_a_promise_that_is_never_broken_crosses_nowhere() -> None:
    line = fits.fit("hnsw", [(1000, 1.0), (2000, 1.1), (5000, 1.2)])
    assert line is not None
    assert line.crosses(1000.0).at is None


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1000, 1.0), (2000, 2.0)],
        [(1000, 1.0), (1000, 1.1), (1000, 1.2)],
        [(1000, float("nan")), (2000, 1.0), (3000, 0.0), (0, 5.0)],
    ],
)
def test_a_line_needs_three_sizes_with_times(points: list[tuple[int, float]]) -> None:
    assert fits.fit("exact", points) is None


def test_noise_never_makes_a_larger_corpus_faster() -> None:
    line = fits.fit("hnsw", [(1000, 2.0), (5000, 1.5), (20_000, 1.2)])
    assert line is not None
    assert line.at(1e6) == pytest.approx(line.at(1000))
