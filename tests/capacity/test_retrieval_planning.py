"""Plans of retrieval: what one PostgreSQL carries, and what would reverse that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.capacity.models import SearchMeasurement
from apps.capacity.retrieval_planning.deciding import decide
from apps.capacity.retrieval_planning.forms import RetrievalForm
from apps.capacity.retrieval_planning.measured import Curves, curves_of
from apps.capacity.retrieval_planning.planning import Wish, make_plan
from apps.capacity.retrieval_planning.stored import Stored
from tests.cast import Cast

pytestmark = pytest.mark.django_db

GB = 10**9
WISH = Wish(
    passages=20_000, largest=8_000, dimensions=384, storage="halfvec", m=16, ef_search=400,
    per_s=10.0, promise_ms=100.0, recall=0.95, replicas=0, memory_bytes=16 * GB, cores=4,
    memory_share=0.75, busy_most=0.7, text_bytes=4000.0, word_bytes=3000.0,
    bytes_origin="typed", exact_up_to=10_000,
)  # fmt: skip


def _point(kind: str, passages: int, ms: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "passages": passages, "searches": 60, "p50_ms": ms, "p95_ms": ms * 1.2,
        "mean_ms": ms, "cpu_ms": ms * 0.9, **more,
    }  # fmt: skip


def measured(dimensions: int = 384) -> SearchMeasurement:
    """1 ms for a thousand passages exactly; through HNSW a little more with each ten times."""
    sizes = (1000, 2000, 5000, 10_000, 20_000)
    exact = [_point("exact", n, n / 1000 * wobble) for n, wobble in zip(sizes, WOBBLE, strict=True)]
    hnsw = [
        _point(
            "hnsw", n, 2.0 + 0.1 * number, ef_search=400, m=16, ef_construction=64,
            recall=0.99 - 0.005 * number, recall_low=0.98 - 0.005 * number, recall_high=0.995,
            k=20, build_s=1.0, size_bytes=1174 * n,
        )
        for number, n in enumerate(sizes)
    ]  # fmt: skip
    return SearchMeasurement.objects.create(
        dimensions=dimensions,
        source="made for a test",
        machine={"cpu": "A", "cores": 2, "postgres": "18", "pgvector": "0.8.5", "load_before": 0.1},
        points=[*exact, *hnsw],
        complete=True,
    )


WOBBLE = (1.02, 0.97, 1.01, 0.99, 1.01)


@pytest.fixture
def curves() -> Curves:
    measured()
    found = curves_of(384, 400)
    assert found is not None
    return found


def test_a_small_site_stays_on_one_postgresql(curves: Curves) -> None:
    plan = make_plan(WISH, curves)
    assert plan.way == "exact"
    assert plan.latency is not None
    assert plan.latency.trust == "measured"
    assert plan.latency.ms.value == pytest.approx(8 * 1.2, rel=0.03)
    assert plan.recall is None
    assert decide(plan).choice == "stay"


def test_more_searches_than_cores_carry_call_for_replicas(curves: Curves) -> None:
    plan = make_plan(replace(WISH, per_s=2000.0), curves)
    assert plan.rate is not None
    # 4 cores, 7.2 ms of a core each, 70 % busy at most.
    assert plan.rate.most.value == pytest.approx(4 * 0.7 / 0.0072, rel=0.03)
    assert plan.rate.machines == 6
    assert decide(plan).choice == "replicas"


def test_replicas_that_are_there_are_counted(curves: Curves) -> None:
    assert decide(make_plan(replace(WISH, per_s=700.0), curves)).choice == "replicas"
    assert decide(make_plan(replace(WISH, per_s=700.0, replicas=1), curves)).choice == "stay"


def test_what_does_not_fit_into_memory_calls_for_more(curves: Curves) -> None:
    plan = make_plan(replace(WISH, memory_bytes=GB // 100), curves)
    assert not plan.memory.fits
    assert decide(plan).choice == "memory"


def test_more_than_any_machine_calls_for_spreading_organisations(curves: Curves) -> None:
    plan = make_plan(replace(WISH, passages=5 * 10**8, memory_bytes=512 * GB), curves)
    assert decide(plan).choice == "citus"


def test_an_organisation_too_large_for_the_promise_calls_for_another_way(curves: Curves) -> None:
    plan = make_plan(replace(WISH, promise_ms=2.0, largest=9_000), curves)
    assert plan.latency is not None
    assert plan.latency.keeps == "no"
    assert decide(plan).choice == "dedicated"


def test_the_size_where_the_promise_breaks_is_told_with_its_band(curves: Curves) -> None:
    decision = decide(make_plan(replace(WISH, promise_ms=20.0), curves))
    words = " ".join(decision.reversed_by)
    assert "passages, where the line meets the promise; by its band between" in words


def test_nothing_is_said_of_time_without_a_measurement() -> None:
    plan = make_plan(WISH, None)
    assert plan.latency is None
    assert plan.rate is None
    assert decide(plan).choice == "unknown"
    assert plan.memory.disk.value > 0


def test_ten_times_beyond_what_was_measured_nothing_is_decided(curves: Curves) -> None:
    plan = make_plan(replace(WISH, passages=10**7, largest=10**6), curves)
    assert plan.latency is not None
    assert plan.latency.trust == "beyond"
    assert decide(plan).choice == "unknown"


def test_between_ten_times_and_measured_it_is_called_extrapolated(curves: Curves) -> None:
    plan = make_plan(replace(WISH, passages=200_000, largest=100_000), curves)
    assert plan.latency is not None
    assert (plan.way, plan.latency.trust) == ("hnsw", "extrapolated")
    assert "extrapolated, not measured" in decide(plan).reasons[0]


def test_recall_of_a_larger_index_is_bounded_from_above_alone(curves: Curves) -> None:
    plan = make_plan(replace(WISH, passages=200_000, largest=100_000), curves)
    assert plan.recall is not None
    assert plan.recall.keeps == "unknown"
    assert plan.recall.words.startswith("At most about 0.970")


def test_recall_within_what_was_measured_is_that_of_the_next_larger_size(curves: Curves) -> None:
    plan = make_plan(replace(WISH, largest=15_000), curves)
    assert plan.recall is not None
    assert plan.recall.keeps == "yes"
    assert "at 20,000 passages" in plan.recall.words


def test_a_replica_takes_its_own_disk(curves: Curves) -> None:
    one, three = (make_plan(replace(WISH, replicas=n), curves).memory for n in (0, 2))
    assert three.all_disk.value == 3 * one.disk.value


def test_the_newest_measurement_and_the_nearest_ef_search_are_taken() -> None:
    measured()
    newest = measured()
    found = curves_of(384, 700)
    assert found is not None
    assert (found.row.id, found.ef_search) == (newest.id, 400)
    assert curves_of(768, 400) is None


def test_bytes_are_the_sites_own_until_other_ones_are_typed() -> None:
    stored = Stored(5000, 1234.4, 987.6)
    own = RetrievalForm({}, stored=stored)
    assert own.is_valid()
    assert "5,000 passages" in own.wish().bytes_origin
    typed = RetrievalForm({"text_bytes": "77"}, stored=stored)
    assert typed.is_valid()
    assert typed.wish().bytes_origin == "typed, not measured"


@pytest.mark.parametrize(
    "asked",
    [
        {"passages": "0"}, {"passages": "1e30"}, {"largest": "nan"}, {"dimensions": "-1"},
        {"storage": "<b>"}, {"m": "1"}, {"per_s": "inf"}, {"promise_ms": ""}, {"memory_gb": "x"},
        {"busy_most": "100"}, {"cores": "99999999999999999999"},
    ],
)  # fmt: skip
def test_what_cannot_be_computed_with_is_answered_at_its_field(asked: dict[str, str]) -> None:
    form = RetrievalForm(asked, stored=None)
    assert not form.is_valid()
    assert set(form.errors) == set(asked)


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"passages": "1", "largest": "0.0001"}, {"passages": "1000000000000", "largest": "100"},
        {"per_s": "10000000"}, {"promise_ms": "0.01"}, {"dimensions": "4000", "storage": "bit"},
        {"memory_gb": "0.1", "cores": "4096"}, {"per_s": "0.001", "promise_ms": "1000000"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_measurement", [False, True])
def test_the_page_answers_the_smallest_and_the_largest(
    cast: Cast, client: Any, asked: dict[str, str], has_measurement: bool
) -> None:
    if has_measurement:
        measured()
        measured(4000)
    client.force_login(cast.olga)
    page = client.get("/ops/capacity/retrieval/", asked)
    assert page.status_code == 200
    assert b"What would reverse this" in page.content
    part = client.get("/ops/capacity/retrieval/", asked, headers={"HX-Request": "true"})
    assert b"<html" not in part.content


def test_the_page_says_which_command_measures(cast: Cast, client: Any) -> None:
    client.force_login(cast.olga)
    page = client.get("/ops/capacity/retrieval/", {"dimensions": "768"})
    assert b"manage.py measure-search --dimensions 768" in page.content


def test_a_wrong_field_is_named_on_the_page(cast: Cast, client: Any) -> None:
    client.force_login(cast.olga)
    page = client.get("/ops/capacity/retrieval/", {"cores": "<script>"})
    assert b"Give a whole number from 1 to 4,096." in page.content
    assert (
        b"<script>"
        not in page.content.partition(b'id="retrieval-form"')[2].partition(b"</form>")[0]
    )
