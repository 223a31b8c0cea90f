"""Operations see how well search finds, of all tenants; figures and identifiers, and no text."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.evals.models import Alert, EvalRun
from apps.evals.selectors.recall import recall_by_plan
from apps.ops.quality import hnsw_indexes, newest_figures, open_alerts_by_kind
from apps.retrieval.models import AnnIndex, EmbeddingIndex, RecallSample
from apps.tenants.models import Tenant
from tests.cast import Cast, signed_in
from tests.evals.shown import FOUND, NEVER_FOUND, make_shelf, shown_run

pytestmark = pytest.mark.django_db

PAGE = "/ops/quality/"


def embedding_index(tenant: Tenant) -> EmbeddingIndex:
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant=tenant, model_id="words", dimensions=3, chunker_version=1, active=True
    )
    return index


def sample(tenant: Tenant, *, found: int = 10, recall: float | None = 1.0) -> RecallSample:
    return RecallSample.objects.create(
        tenant=tenant,
        index=embedding_index(tenant),
        question=[1, 0, 0],
        collection_ids=[],
        plan="exact",
        wanted=10,
        found=[],
        search_ms=1.0,
        exact_rows=None if recall is None else 10,
        found_rows=found,
        recall_10=recall,
    )


def hnsw(tenant: Tenant, state: str, m: int, size: int | None) -> AnnIndex:
    return AnnIndex.objects.create(
        tenant=tenant,
        index=embedding_index(tenant),
        m=m,
        ef_construction=64,
        state=state,
        size_bytes=size,
        build_s=83.0,
        error_code="out_of_memory" if state == "failed" else "",
    )


def test_each_set_has_its_newest_run_and_the_change(cast: Cast) -> None:
    ours, theirs = make_shelf(cast.acme), make_shelf(cast.rival)
    old = shown_run(ours, [FOUND, NEVER_FOUND, NEVER_FOUND])
    EvalRun.objects.filter(id=old.id).update(created_at=timezone.now() - timedelta(days=1))
    new = shown_run(ours, [FOUND] * 3)
    shown_run(ours, trigger=EvalRun.Trigger.GATE)
    shown_run(ours, configuration={"default": False})
    shown_run(ours, state=EvalRun.State.FAILED)
    alone = shown_run(theirs, [FOUND] * 3)
    Alert.objects.create(tenant=cast.acme, kind="metric_fell", run=new, metric="ndcg@10")
    Alert.objects.create(
        tenant=cast.acme, kind="metric_fell", run=new, metric="recall@10", seen_at=timezone.now()
    )
    found = {each.run_id: each for each in newest_figures()}
    assert set(found) == {new.id, alone.id}
    assert found[new.id].change == pytest.approx(2 / 3)
    assert (found[new.id].questions, found[new.id].alerts) == (3, 1)
    assert found[new.id].values == [1.0, 1.0, 1.0]
    assert (found[alone.id].change, found[alone.id].alerts) == (None, 0)
    assert open_alerts_by_kind() == [("A metric fell", 1, 1)]


def test_live_recall_is_counted_by_tenant_and_plan(cast: Cast) -> None:
    sample(cast.acme, recall=1.0)
    sample(cast.acme, recall=0.5, found=5)
    sample(cast.acme, recall=None)
    sample(cast.rival, recall=0.9)
    since = timezone.now() - timedelta(days=1)
    rows = {each.tenant_id: each for each in recall_by_plan(since)}
    ours = rows[cast.acme.id]
    assert (ours.samples, ours.recall_10, ours.short) == (2, 0.75, 1)
    assert rows[cast.rival.id].samples == 1
    assert [each.tenant_id for each in recall_by_plan(since, tenant_id=cast.rival.id)] == [
        cast.rival.id
    ]
    assert recall_by_plan(timezone.now() + timedelta(days=1)) == []


def test_indexes_that_need_looking_at_come_first(cast: Cast) -> None:
    small = hnsw(cast.acme, "ready", 8, 1000)
    large = hnsw(cast.acme, "ready", 16, 2000)
    failed = hnsw(cast.rival, "failed", 16, None)
    building = hnsw(cast.rival, "building", 32, None)
    assert hnsw_indexes() == [failed, building, large, small]


def test_the_page_shows_figures_and_no_text(cast: Cast) -> None:
    shelf = make_shelf(cast.acme)
    run = shown_run(shelf)
    Alert.objects.create(tenant=cast.acme, kind="metric_fell", run=run, metric="ndcg@10")
    sample(cast.acme)
    hnsw(cast.acme, "failed", 16, None)
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert str(shelf.labelled_set.id) in page
    assert "0.333" in page
    assert "1 min 23 s" in page
    assert "out_of_memory" in page
    for text in ("Ferries", "ferry", "guide.md", "Handbook"):
        assert text not in page


def test_an_empty_site_says_so(cast: Cast) -> None:
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert "No organisation has run a labelled set yet." in page
    assert "all are searched exactly" in page


@pytest.mark.parametrize("name", ["alice", "carl", "bob"])
def test_nobody_else_knows_of_the_page(cast: Cast, name: str) -> None:
    assert signed_in(getattr(cast, name)).get(PAGE).status_code == 404


def test_an_identifier_is_told_by_its_first_characters(cast: Cast) -> None:
    shelf = make_shelf(cast.acme)
    shown_run(shelf)
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert f">{str(uuid.UUID(str(shelf.labelled_set.id)))[:8]}</code>" in page
