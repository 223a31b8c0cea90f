"""Curves: what is varied, what is measured, what is proposed, and what a killed worker leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from apps.documents.jobs import submit
from apps.documents.models import Collection, Document, DocumentState
from apps.evals.models import Label, LabelledQuestion, LabelledSet, TuneRun
from apps.evals.tuning import builds, jobs, measurement
from apps.evals.tuning.applying import apply_curve
from apps.evals.tuning.errors import (
    CurveRunning,
    CurveStale,
    CurveUnfinished,
    GoalInvalid,
    GridInvalid,
    NothingToTune,
    PointUnknown,
)
from apps.evals.tuning.figures import share_interval, vector_figures
from apps.evals.tuning.grid import Variant, complete_grid, parse_grid, settings, variants
from apps.evals.tuning.jobs import cancel_curve, start_curve
from apps.evals.tuning.measurement import Pace
from apps.evals.tuning.probes import PROBES_ENOUGH, choose_probes
from apps.evals.tuning.proposing import propose
from apps.evals.tuning.working import tune_next, work_on
from apps.inference.errors import InferenceError
from apps.retrieval.models import AnnIndex, EmbeddingIndex, SearchProfile
from apps.retrieval.options import EF_SEARCH, SearchOptions, options_for
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import (
    CoverageReranker,
    WordEmbedder,
    make_collection,
    make_document,
    write_rows,
)

IN_FORCE = SearchOptions(ef_search=200)
NOW = Pace(rest=False)
WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord"),
    *("grove", "heath", "inlet", "jetty", "knoll", "larch"),
)


# What is varied ---------------------------------------------------------------


def test_the_setting_in_force_is_always_measured() -> None:
    grid = complete_grid({"ef_search": [400]}, replace(IN_FORCE, ef_search=321, m=20))
    assert grid["ef_search"] == [321, 400]
    assert grid["m"] == [20]


def test_values_that_find_fewer_than_the_candidates_are_left_out() -> None:
    grid = complete_grid({"ef_search": [50, 150]}, IN_FORCE)
    assert {each.ef_search for each in settings(grid, IN_FORCE)} == {150, 200}


def test_variants_that_cannot_be_built_are_left_out_and_the_one_in_force_comes_first() -> None:
    grid = complete_grid({"m": [16, 48], "ef_construction": [64, 128]}, IN_FORCE)
    assert variants(grid, IN_FORCE) == [
        Variant("halfvec", 16, 64),
        Variant("halfvec", 16, 128),
        Variant("halfvec", 48, 128),
    ]


def test_words_of_a_command_are_read_as_a_grid() -> None:
    assert parse_grid("ef_search=100,200 storage=halfvec,bit") == {
        "ef_search": [100, 200],
        "storage": ["halfvec", "bit"],
    }


@pytest.mark.parametrize("words", ["ef_search", "ef_search=", "m=sixteen", "m=1.5"])
def test_words_that_are_no_grid_are_refused(words: str) -> None:
    with pytest.raises(GridInvalid):
        parse_grid(words)


@pytest.mark.parametrize(
    "asked",
    [
        {"ef_search": [0]},
        {"ef_search": [1001]},
        {"ef_search": [True]},
        {"storage": ["vector"]},
        {"colour": [1]},
        {"ef_search": list(range(100, 120))},
        {"m": [4, 8, 12, 20, 24, 32]},
        {"leg_candidates": [10, 20, 30, 40], "rerank_candidates": [1, 2, 3, 4]},
    ],
)
def test_a_grid_that_cannot_be_measured_is_refused(asked: dict[str, list[Any]]) -> None:
    with pytest.raises(GridInvalid):
        complete_grid(asked, IN_FORCE)


# What is measured -------------------------------------------------------------


def test_an_interval_does_not_close_on_one() -> None:
    low, high = share_interval(1.0, 200)
    assert 0.97 < low < 0.99
    assert high == 1.0
    assert share_interval(0.5, 0) == (0.0, 1.0)


def test_figures_count_the_questions_that_lacked_rows() -> None:
    figures = vector_figures([[1.0, 1.0, 100, 100, 2.0], [0.5, 0.5, 60, 100, 4.0]])
    assert (figures["recall"], figures["short"], figures["rows_min"]) == (0.75, 1, 60)
    assert (figures["questions"], figures["p50_ms"]) == (2, 3.0)


# What is proposed -------------------------------------------------------------


def point(ef_search: int, recall: float, p95_ms: float, **more: Any) -> dict[str, Any]:
    base = {"kind": "vectors", "storage": "halfvec", "m": 16, "ef_construction": 64}
    return {**base, "ef_search": ef_search, "recall": recall, "p95_ms": p95_ms, **more}


def depth(leg: int, rerank: int, ndcg: float, p95_ms: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": "pipeline",
        "leg_candidates": leg,
        "rerank_candidates": rerank,
        "ndcg_10": ndcg,
        "recall_10": ndcg,
        "p95_ms": p95_ms,
        "degraded": 0,
        "questions": 60,
        **more,
    }


def proposal(*points: dict[str, Any], goal: float = 0.98) -> dict[str, Any]:
    return propose(points, goal=goal, in_force=IN_FORCE)


def test_the_cheapest_that_meets_the_goal_is_proposed() -> None:
    found = proposal(point(100, 0.97, 1), point(150, 0.985, 2), point(200, 0.99, 4, in_force=True))
    assert found["changes"] == {"ef_search": 150}
    assert found["vectors"] == {"verdict": "cheaper", "point": 1}


def test_what_is_in_force_stays_where_it_costs_the_same() -> None:
    found = proposal(point(150, 0.985, 3.9), point(200, 0.99, 4, in_force=True))
    assert (found["changes"], found["vectors"]["verdict"]) == ({}, "in_force")


def test_more_recall_is_proposed_where_what_is_in_force_misses_the_goal() -> None:
    found = proposal(point(200, 0.95, 2, in_force=True), point(400, 0.99, 4))
    assert (found["changes"], found["vectors"]["verdict"]) == ({"ef_search": 400}, "recall")


def test_nothing_is_proposed_where_no_setting_meets_the_goal() -> None:
    found = proposal(point(200, 0.9, 2, in_force=True), point(400, 0.95, 4))
    assert (found["changes"], found["vectors"]) == ({}, {"verdict": "none_meets", "best": 1})


def test_fewer_candidates_are_proposed_only_where_they_are_no_worse() -> None:
    now = depth(100, 20, 0.8, 50, in_force=True)
    worse = proposal({"kind": "exact"}, now, depth(50, 10, 0.79, 20))
    assert (worse["changes"], worse["pipeline"]["verdict"]) == ({}, "in_force")
    same = proposal({"kind": "exact"}, now, depth(50, 10, 0.8, 20))
    assert same["changes"] == {"leg_candidates": 50, "rerank_candidates": 10}


def test_a_handful_of_labelled_questions_proposes_nothing() -> None:
    few = {"questions": 24}
    found = proposal(
        {"kind": "exact"},
        depth(100, 20, 0.8, 50, in_force=True, **few),
        depth(50, 10, 0.9, 5, **few),
    )
    assert (found["changes"], found["pipeline"]["verdict"]) == ({}, "few_labels")


def test_an_ef_search_below_the_candidates_is_not_proposed() -> None:
    found = proposal(
        point(60, 0.99, 1),
        point(200, 0.99, 4, in_force=True),
        depth(100, 20, 0.8, 50, in_force=True),
        depth(100, 10, 0.8, 20),
    )
    assert found["changes"] == {"rerank_candidates": 10}


def test_more_work_is_not_proposed_for_having_been_quicker_by_chance() -> None:
    found = proposal(
        point(150, 0.99, 5.8),
        point(200, 1.0, 5.6, in_force=True),
        point(800, 1.0, 4.3),
        depth(100, 20, 0.8, 50, in_force=True),
        depth(200, 20, 0.9, 20),
        depth(50, 40, 0.9, 20),
    )
    assert (found["changes"], found["vectors"]["verdict"]) == ({}, "in_force")
    assert found["pipeline"]["verdict"] == "in_force"


def test_another_index_is_proposed_where_its_least_setting_is_cheaper() -> None:
    found = proposal(
        point(200, 0.99, 6, in_force=True), point(100, 0.99, 3, m=24), point(400, 1.0, 2, m=24)
    )
    assert found["changes"] == {"m": 24, "ef_search": 100}


def test_a_reranker_that_was_down_proposes_nothing() -> None:
    found = proposal(
        {"kind": "exact"}, depth(100, 20, 0.8, 50, in_force=True), depth(50, 10, 0.9, 5, degraded=1)
    )
    assert (found["changes"], found["pipeline"]["verdict"]) == ({}, "degraded")


# From a curve that waits to one that is measured ------------------------------


@pytest.fixture
def tenant() -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def collection(tenant: Tenant) -> Collection:
    return make_collection(tenant)


@pytest.fixture
def document(collection: Collection) -> Document:
    texts = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS[:2] if a < b]
    document = make_document(collection, texts, state=DocumentState.READY)
    write_rows(document)
    return document


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> tuple[WordEmbedder, CoverageReranker]:
    from apps.inference import registry

    embedder, reranker = WordEmbedder(), CoverageReranker()
    monkeypatch.setattr(registry, "get_embedder", lambda: embedder)
    monkeypatch.setattr(registry, "get_reranker", lambda: reranker)
    return embedder, reranker


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker leaves half of its time to others: not in tests."""
    monkeypatch.setattr(measurement.time, "sleep", lambda seconds: None)


def label_questions(document: Document, count: int = 3) -> LabelledSet:
    with tenant_scope(document.tenant_id):
        labelled = LabelledSet.objects.create(
            tenant_id=document.tenant_id,
            collection_id=document.collection_id,
            name="Trees",
            origin=LabelledSet.Origin.MARKED,
        )
        for n in range(count):
            question = LabelledQuestion.objects.create(
                tenant_id=document.tenant_id,
                labelled_set=labelled,
                key=str(n),
                text=f"{WORDS[n]} {WORDS[n + 1]}",
            )
            Label.objects.create(
                tenant_id=document.tenant_id,
                question=question,
                document=document,
                char_start=n * 1000,
                char_end=n * 1000 + 17,
            )
    return labelled


def measured(tenant: Tenant, **asked: Any) -> TuneRun:
    curve = start_curve(tenant=tenant, user=None, claimed=True, **asked)
    assert work_on(jobs.claim_of(curve), NOW)
    curve.refresh_from_db()
    return curve


@pytest.mark.django_db
def test_a_small_tenant_is_told_that_it_is_searched_exactly(
    tenant: Tenant, document: Document
) -> None:
    curve = measured(tenant)
    assert curve.state == TuneRun.State.DONE
    (exact,) = curve.points
    assert (exact["kind"], exact["recall"], exact["short"]) == ("exact", 1.0, 0)
    assert exact["questions"] == curve.total == curve.done == PROBES_ENOUGH
    assert curve.proposal["vectors"] == {"verdict": "exact"}
    assert curve.proposal["questions"] == {"labelled": 0, "live": 0, "passages": PROBES_ENOUGH}


@pytest.mark.django_db
@pytest.mark.usefixtures("models")
def test_labelled_questions_measure_the_candidates(tenant: Tenant, document: Document) -> None:
    label_questions(document)
    grid = {"leg_candidates": [50], "rerank_candidates": [5]}
    curve = measured(tenant, grid=grid)
    depths = [each for each in curve.points if each["kind"] == "pipeline"]
    assert {(each["leg_candidates"], each["rerank_candidates"]) for each in depths} == {
        *((50, 5), (50, 20), (100, 5), (100, 20))
    }
    assert all(each["questions"] == 3 and each["ndcg_10"] > 0 for each in depths)
    assert curve.proposal["questions"]["labelled"] == 3
    assert curve.proposal["pipeline"] == {"verdict": "few_labels"}


@pytest.mark.django_db
def test_a_turn_ends_and_the_next_goes_on_where_it_was(tenant: Tenant, document: Document) -> None:
    curve = start_curve(tenant=tenant, user=None)
    asked = []
    for _ in range(3):
        claim = jobs.take()
        assert claim is not None
        assert not work_on(claim, Pace(until=0.0, rest=False))
        curve.refresh_from_db()
        asked.append((curve.done, len(curve.points[0]["samples"])))
    assert asked == [(1, 1), (2, 2), (3, 3)]
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.points[0]["questions"]) == (TuneRun.State.DONE, PROBES_ENOUGH)


@pytest.mark.django_db
def test_a_killed_workers_curve_is_taken_again_and_the_dead_one_changes_nothing(
    tenant: Tenant, document: Document
) -> None:
    curve = start_curve(tenant=tenant, user=None)
    dead = jobs.take()
    assert dead is not None
    assert jobs.take() is None
    TuneRun.objects.filter(id=curve.id).update(lease_expires_at=timezone.now())
    alive = jobs.take()
    assert alive is not None
    with pytest.raises(jobs.Lost):
        jobs.keep(dead, done=99)
    assert work_on(alive, NOW)
    with pytest.raises(jobs.Lost):
        jobs.finish(dead)
    curve.refresh_from_db()
    assert curve.state == TuneRun.State.DONE


@pytest.mark.django_db
def test_a_curve_that_kills_its_workers_is_given_up(tenant: Tenant, document: Document) -> None:
    curve = start_curve(tenant=tenant, user=None)
    for _ in range(jobs.ATTEMPTS_MAX):
        assert jobs.take() is not None
        TuneRun.objects.filter(id=curve.id).update(lease_expires_at=timezone.now())
    assert jobs.take() is None
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.FAILED, "kept_crashing")


@pytest.mark.django_db
def test_a_cancelled_curve_stops(tenant: Tenant, document: Document) -> None:
    curve = start_curve(tenant=tenant, user=None)
    claim = jobs.take()
    assert claim is not None
    assert cancel_curve(tenant=tenant, user=None, curve_id=curve.id)
    assert not cancel_curve(tenant=tenant, user=None, curve_id=curve.id)
    assert work_on(claim, NOW)
    curve.refresh_from_db()
    assert (curve.state, curve.points) == (TuneRun.State.CANCELLED, [])


@pytest.mark.django_db
def test_measuring_waits_while_documents_are_ingested_but_not_for_ever(
    tenant: Tenant, document: Document
) -> None:
    curve = start_curve(tenant=tenant, user=None)
    with tenant_scope(tenant.id):
        submit(document)
    assert jobs.take() is None
    TuneRun.objects.filter(id=curve.id).update(created_at=timezone.now() - jobs.PATIENCE * 2)
    assert jobs.take() is not None


@pytest.mark.django_db
def test_a_model_that_is_down_is_waited_for(
    tenant: Tenant, document: Document, models: tuple[WordEmbedder, CoverageReranker]
) -> None:
    label_questions(document)
    curve = start_curve(tenant=tenant, user=None)
    models[0].failures = [InferenceError("down")]
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.RUNNING, InferenceError.code)
    assert jobs.take() is None
    TuneRun.objects.filter(id=curve.id).update(lease_expires_at=timezone.now())
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.DONE, "")


@pytest.mark.django_db
def test_another_embedding_model_than_the_indexs_ends_the_curve(
    tenant: Tenant, document: Document, models: tuple[WordEmbedder, CoverageReranker]
) -> None:
    label_questions(document)
    models[0].model_id = "others"
    curve = measured(tenant)
    assert (curve.state, curve.error_code) == (TuneRun.State.FAILED, "index_behind")


@pytest.mark.django_db
def test_a_changed_embedding_index_ends_the_curve(tenant: Tenant, document: Document) -> None:
    curve = start_curve(tenant=tenant, user=None)
    EmbeddingIndex.objects.filter(tenant=tenant).update(active=False)
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.FAILED, "index_changed")


@pytest.mark.django_db
def test_one_curve_at_a_time(tenant: Tenant, document: Document) -> None:
    start_curve(tenant=tenant, user=None)
    with pytest.raises(CurveRunning):
        start_curve(tenant=tenant, user=None)


@pytest.mark.django_db
def test_a_tenant_without_passages_has_nothing_to_tune(tenant: Tenant) -> None:
    with pytest.raises(NothingToTune):
        start_curve(tenant=tenant, user=None)


@pytest.mark.django_db
@pytest.mark.parametrize("asked", [{"goal": 0.4}, {"goal": 1.1}, {"k": 0}, {"k": 101}])
def test_a_goal_that_cannot_be_asked_for_is_refused(
    tenant: Tenant, document: Document, asked: dict[str, Any]
) -> None:
    with pytest.raises(GoalInvalid):
        start_curve(tenant=tenant, user=None, **asked)
    assert not TuneRun.objects.exists()


@pytest.mark.django_db
def test_another_tenants_questions_are_not_used(tenant: Tenant, document: Document) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    theirs = make_document(make_collection(rival), ["their amber"], state=DocumentState.READY)
    label_questions(theirs, 1)
    index = EmbeddingIndex.objects.get(tenant=tenant, active=True)
    assert choose_probes(index, seed=index.id).counts["labelled"] == 0


# HNSW ---------------------------------------------------------------------------


@pytest.fixture
def large(settings: Settings) -> Iterator[None]:
    """Every tenant is large; what is built in the schema is dropped again."""
    settings.HNSW_ABOVE_CHUNKS = 10
    yield
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relname ~ '^ann_[0-9]+$'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP INDEX search.{name}")


def vector_points(curve: TuneRun) -> list[dict[str, Any]]:
    return [each for each in curve.points if each["kind"] == "vectors"]


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("large")
def test_settings_of_a_large_tenant_are_measured_and_the_proposed_one_applied(
    tenant: Tenant, document: Document
) -> None:
    grid = {"ef_search": [100, 150], "m": [8], "storage": ["bit"]}  # and what is in force
    curve = start_curve(tenant=tenant, user=None, claimed=True, grid=grid, k=10)
    assert work_on(jobs.claim_of(curve), replace(NOW, build_here=True))
    curve.refresh_from_db()
    found = vector_points(curve)
    assert curve.state == TuneRun.State.DONE
    assert len(found) == 2 * 2 * 3  # storages, values of m, and of ef_search
    assert all(each["questions"] == PROBES_ENOUGH and each["size_bytes"] > 0 for each in found)
    assert all((each["rows_min"], each["short"]) == (99, 0) for each in found)
    assert max(each["recall"] for each in found if each["storage"] == "halfvec") > 0.95
    assert AnnIndex.objects.filter(tenant=tenant).count() == 4
    builds.tidy()
    kept = {(each.storage, each.m) for each in AnnIndex.objects.filter(tenant=tenant)}
    proposed = curve.proposal["changes"]
    assert kept == {
        (options_for(tenant.id).storage, 16),
        (proposed.get("storage", "halfvec"), proposed.get("m", 16)),
    }
    curve.refresh_from_db()
    assert "built" not in curve.proposal


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("large")
def test_a_worker_waits_for_the_job_that_builds(tenant: Tenant, document: Document) -> None:
    from apps.retrieval import ann

    curve = start_curve(tenant=tenant, user=None, grid={"ef_search": [EF_SEARCH]})
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.RUNNING, "building_hnsw")
    assert curve.proposal["built"] == [["halfvec", 16, 64]]
    ann.tend()
    TuneRun.objects.filter(id=curve.id).update(lease_expires_at=timezone.now())
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, len(vector_points(curve))) == (TuneRun.State.DONE, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("large")
def test_what_a_cancelled_curve_built_is_dropped(tenant: Tenant, document: Document) -> None:
    curve = start_curve(tenant=tenant, user=None, grid={"m": [8]})
    tune_next()
    assert AnnIndex.objects.filter(tenant=tenant).count() == 2
    cancel_curve(tenant=tenant, user=None, curve_id=curve.id)
    tune_next()
    (kept,) = AnnIndex.objects.filter(tenant=tenant)
    assert kept.m == 16


@pytest.mark.django_db
@pytest.mark.usefixtures("large")
def test_an_index_that_cannot_be_built_fails_the_curve(tenant: Tenant, document: Document) -> None:
    index = EmbeddingIndex.objects.get(tenant=tenant)
    AnnIndex.objects.create(
        tenant=tenant, index=index, m=16, ef_construction=64, state="failed", error_code="sql_53200"
    )
    curve = start_curve(tenant=tenant, user=None)
    tune_next()
    curve.refresh_from_db()
    assert (curve.state, curve.error_code) == (TuneRun.State.FAILED, "sql_53200")


# Applying -----------------------------------------------------------------------


@pytest.fixture
def done(tenant: Tenant, document: Document) -> TuneRun:
    """A curve that proposes something."""
    points = [
        {"kind": "exact", "p95_ms": 9.0},
        point(150, 0.99, 2.0, m=24),
        point(400, 1.0, 5.0),
        depth(500, 10, 0.8, 20),
    ]
    return TuneRun.objects.create(
        tenant=tenant,
        index_id=EmbeddingIndex.objects.get(tenant=tenant).id,
        state=TuneRun.State.DONE,
        points=points,
        proposal={"changes": {"ef_search": 150, "m": 24}},
    )


@pytest.mark.django_db
def test_a_proposal_is_applied_and_says_what_it_was_set_by(tenant: Tenant, done: TuneRun) -> None:
    profile = apply_curve(tenant=tenant, user=None, curve=done)
    assert (profile.ef_search, profile.m, profile.origin) == (150, 24, "tuned")
    assert (profile.evidence_id, profile.recall_goal) == (done.id, 0.98)
    done.refresh_from_db()
    assert done.applied_at is not None


@pytest.mark.django_db
def test_any_point_can_be_applied_by_hand(tenant: Tenant, done: TuneRun) -> None:
    profile = apply_curve(tenant=tenant, user=None, curve=done, point=2)
    assert (profile.ef_search, profile.m, profile.origin) == (400, 16, "manual")
    deeper = apply_curve(tenant=tenant, user=None, curve=done, point=3)
    assert (deeper.leg_candidates, deeper.rerank_candidates, deeper.ef_search) == (500, 10, 500)


@pytest.mark.django_db
def test_more_candidates_raise_an_ef_search_that_would_not_find_them(
    tenant: Tenant, done: TuneRun
) -> None:
    profile = apply_curve(tenant=tenant, user=None, curve=done, point=3)
    assert (profile.leg_candidates, profile.ef_search) == (500, 500)


@pytest.mark.django_db
@pytest.mark.parametrize("place", [0, -1, 4, 10**9])
def test_a_point_that_is_not_there_is_refused(tenant: Tenant, done: TuneRun, place: int) -> None:
    with pytest.raises(PointUnknown):
        apply_curve(tenant=tenant, user=None, curve=done, point=place)


@pytest.mark.django_db
def test_a_curve_of_another_index_is_refused(tenant: Tenant, done: TuneRun) -> None:
    EmbeddingIndex.objects.filter(tenant=tenant).update(active=False)
    with pytest.raises(CurveStale):
        apply_curve(tenant=tenant, user=None, curve=done)


@pytest.mark.django_db
def test_a_curve_that_has_not_ended_is_refused(tenant: Tenant, done: TuneRun) -> None:
    done.state = TuneRun.State.RUNNING
    with pytest.raises(CurveUnfinished):
        apply_curve(tenant=tenant, user=None, curve=done)
    assert not SearchProfile.objects.filter(tenant=tenant).exists()
