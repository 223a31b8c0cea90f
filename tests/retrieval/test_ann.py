"""HNSW indexes of large tenants, in the real catalogue. These tests commit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from apps.documents.models import Collection
from apps.retrieval import ann, slots, vectors
from apps.retrieval.errors import AnnBuildFailed
from apps.retrieval.filters import Narrowed
from apps.retrieval.models import (
    AnnIndex,
    ChunkVector,
    CollectionStatistics,
    EmbeddingIndex,
    SearchProfile,
)
from apps.retrieval.options import SearchOptions
from apps.retrieval.plans import SearchPlan, hnsw_plan, plan_search
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import delete_document
from tests.retrieval.large import Large, clustered, hnsw_indexes, make_large

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = clustered(1, seed=9)[0]


@pytest.fixture(autouse=True)
def _line(settings: Settings) -> Iterator[None]:
    settings.HNSW_ABOVE_CHUNKS = 500
    yield
    with connection.cursor() as cursor:
        for name in hnsw_indexes():
            cursor.execute(f"DROP INDEX search.{name}")


@pytest.fixture
def large(collection: Collection) -> Large:
    return make_large(collection, 600)


def explain(large: Large, plan: SearchPlan | None, limit: int = 10) -> str:
    """How PostgreSQL would carry the search out."""
    sent = vectors.statements(
        index=large.index,
        collection_ids=[large.collection.id],
        question=QUESTION,
        limit=limit,
        plan=plan,
    )
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in sent[:-2]:
            cursor.execute(statement.sql, statement.parameters)
        query = sent[-2] if len(sent) > 1 else sent[0]
        cursor.execute(f"EXPLAIN {query.sql}", query.parameters)
        return "\n".join(row[0] for row in cursor.fetchall())


def test_a_tenant_above_the_line_gets_an_index_and_is_searched_with_it(large: Large) -> None:
    ann.tend()
    row = AnnIndex.objects.get(tenant=large.tenant)
    assert (row.state, row.chunk_count, row.index_id) == ("ready", 600, large.index.id)
    assert row.size_bytes
    assert row.build_s is not None
    plan = plan_search(
        index=large.index, options=SearchOptions(), collection_ids=[large.collection.id]
    )
    assert (plan.kind, plan.ann_id, plan.rows) == ("hnsw", row.id, 600)
    with tenant_scope(large.tenant.id):
        found = vectors.search(
            index=large.index,
            collection_ids=[large.collection.id],
            question=QUESTION,
            limit=20,
            plan=plan,
        )
    assert list(found) == large.nearest(QUESTION, 20)
    assert f"using {ann.name_of(row)}" in explain(large, plan)


def test_what_is_added_and_removed_after_the_build_is_found_and_not_found(large: Large) -> None:
    row = ann.ensure_ann(index=large.index)
    added = make_large(large.collection, 200, seed=2)
    delete_document(large.document)
    with transaction.atomic():
        found = vectors.search(
            index=large.index,
            collection_ids=[large.collection.id],
            question=QUESTION,
            limit=50,
            plan=hnsw_plan(row, SearchOptions(), rows=200),
        )
    assert list(found) == added.nearest(QUESTION, 50)


def test_a_large_part_is_searched_with_the_index_and_all_of_it_is_found(
    large: Large, settings: Settings
) -> None:
    settings.HNSW_ABOVE_CHUNKS = 100
    make_large(large.collection, 300, seed=2)
    ann.ensure_ann(index=large.index)
    part = [large.document.id]
    plan = plan_search(
        index=large.index,
        options=SearchOptions(),
        collection_ids=[large.collection.id],
        narrowed=Narrowed(part, 600),
    )
    assert (plan.kind, plan.rows) == ("hnsw", 600)
    with transaction.atomic():
        found = vectors.search(
            index=large.index,
            collection_ids=[large.collection.id],
            question=QUESTION,
            limit=50,
            document_ids=part,
            plan=plan,
        )
    assert list(found) == large.nearest(QUESTION, 50)


def test_an_exact_search_never_uses_an_hnsw_index(large: Large) -> None:
    ann.tend()
    assert "ann_" not in explain(large, None)


def test_a_plan_is_answered_by_the_index_it_names_and_no_other(large: Large) -> None:
    built = [
        ann.ensure_ann(index=large.index),
        ann.ensure_ann(index=large.index, m=8, ef_construction=32),
        ann.ensure_ann(index=large.index, storage="bit"),
    ]
    assert set(hnsw_indexes().values()) == {True}
    for each in built:
        plan = hnsw_plan(each, SearchOptions(), rows=600)
        assert f"using {ann.name_of(each)}" in explain(large, plan)


def test_bits_find_and_halves_decide(large: Large) -> None:
    plan = hnsw_plan(
        ann.ensure_ann(index=large.index, storage="bit"), SearchOptions(ef_search=600), rows=600
    )
    with transaction.atomic():
        found = vectors.search(
            index=large.index,
            collection_ids=[large.collection.id],
            question=QUESTION,
            limit=10,
            plan=plan,
        )
    assert list(found) == large.nearest(QUESTION, 10)
    cosines = sorted((large.matrix @ QUESTION).tolist(), reverse=True)[:10]
    assert list(found.values()) == pytest.approx(cosines, abs=2e-3)


def test_tending_twice_changes_nothing(large: Large) -> None:
    ann.tend()
    before = AnnIndex.objects.get()
    ann.tend()
    assert AnnIndex.objects.get().build_s == before.build_s
    assert hnsw_indexes() == {ann.name_of(before): True}


def test_a_tenant_below_the_line_gets_none(collection: Collection) -> None:
    make_large(collection, 500)
    ann.tend()
    assert not AnnIndex.objects.exists()
    assert hnsw_indexes() == {}


@pytest.mark.parametrize(("left", "stays"), [(400, True), (399, False)])
def test_a_tenant_that_shrank_keeps_it_down_to_four_fifths_of_the_line(
    large: Large, left: int, stays: bool
) -> None:
    ann.tend()
    CollectionStatistics.objects.update(chunk_count=left)
    ann.tend()
    assert AnnIndex.objects.exists() is stays
    assert bool(hnsw_indexes()) is stays


def test_a_killed_build_is_built_anew(large: Large) -> None:
    """What CREATE INDEX CONCURRENTLY leaves when it is killed is an invalid index."""
    row = ann.request_ann(index=large.index)
    blocker = psycopg.connect(**connection.get_connection_params())
    blocker.execute("UPDATE search.chunkvector SET slot = slot WHERE chunk_id = %s",
                    [large.chunk_ids[0]])  # fmt: skip
    builder = threading.Thread(target=_tend_in_a_thread)
    builder.start()
    with connection.cursor() as cursor:
        for _ in range(200):
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index "
                "WHERE pid <> pg_backend_pid()"
            )
            if cursor.fetchall():
                break
            cursor.execute("SELECT pg_sleep(0.02)")
    builder.join()
    blocker.close()
    row.refresh_from_db()
    assert hnsw_indexes() == {ann.name_of(row): False}
    ann.tend()
    row.refresh_from_db()
    assert row.state == "ready"
    assert hnsw_indexes() == {ann.name_of(row): True}


@pytest.mark.slow
def test_a_worker_killed_with_its_build_is_replaced_by_the_next(large: Large) -> None:
    """Its session in PostgreSQL notices, gives the build up, and lets go of the lock."""
    blocker = psycopg.connect(**connection.get_connection_params())
    blocker.execute("UPDATE search.chunkvector SET slot = slot WHERE chunk_id = %s",
                    [large.chunk_ids[0]])  # fmt: skip
    worker = subprocess.Popen(
        [sys.executable, "-c", "import django; django.setup(); "
         "from django.conf import settings; settings.HNSW_ABOVE_CHUNKS = 500; "
         "from apps.retrieval import ann; ann.tend()"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "ragsite.settings"},
    )  # fmt: skip
    _wait_for("SELECT count(*) = 1 FROM pg_stat_progress_create_index")
    worker.kill()
    worker.wait()
    ann.tend()  # the lock is still held: it returns at once
    assert False in hnsw_indexes().values()
    _wait_for("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'")
    blocker.close()
    ann.tend()
    row = AnnIndex.objects.get()
    assert row.state == "ready"
    assert hnsw_indexes() == {ann.name_of(row): True}


def _wait_for(query: str) -> None:
    deadline = time.monotonic() + 30
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute(query)
            if cursor.fetchone()[0]:
                return
            time.sleep(0.05)
    pytest.fail(f"never true: {query}")


def test_an_index_in_a_partition_of_its_own_is_built_there(large: Large) -> None:
    slots.ensure_partition(3)
    try:
        with tenant_scope(large.tenant.id):
            EmbeddingIndex.objects.filter(id=large.index.id).update(slot=3)
            ChunkVector.objects.filter(index=large.index).update(slot=3)
        large.index.refresh_from_db()
        row = ann.ensure_ann(index=large.index)
        plan = hnsw_plan(row, SearchOptions(), rows=600)
        explained = explain(large, plan)
        assert f"using {ann.name_of(row)} on chunkvector_3" in explained
        assert "chunkvector_0" not in explained
    finally:
        slots.drop_partition(3)
    assert hnsw_indexes() == {}
    ann.tend()  # it is missed, and the partition with it: said, and tried later
    row.refresh_from_db()
    assert (row.state, row.error_code) == ("failed", "sql_42P01")


def test_an_index_that_was_built_by_a_worker_killed_afterwards_is_taken_over(large: Large) -> None:
    row = ann.ensure_ann(index=large.index)
    AnnIndex.objects.update(state="building", size_bytes=None)
    ann.tend()
    row.refresh_from_db()
    assert row.state == "ready"
    assert row.size_bytes


def test_an_index_that_went_missing_is_built_again(large: Large) -> None:
    row = ann.ensure_ann(index=large.index)
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX search.{ann.name_of(row)}")
    ann.tend()
    assert hnsw_indexes() == {ann.name_of(row): True}


def test_two_workers_at_once_build_it_once(large: Large) -> None:
    workers = [threading.Thread(target=_tend_in_a_thread) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    row = AnnIndex.objects.get()
    assert row.state == "ready"
    assert hnsw_indexes() == {ann.name_of(row): True}


def _tend_in_a_thread() -> None:
    with suppress(AnnBuildFailed), closing(connection):
        ann.tend()


def test_a_deleted_tenant_leaves_no_index_behind(large: Large) -> None:
    ann.tend()
    with tenant_scope(large.tenant.id):
        Tenant.objects.filter(id=large.tenant.id).delete()
    ann.tend()
    assert hnsw_indexes() == {}


def test_an_embedding_index_that_is_out_of_use_leaves_none_behind(large: Large) -> None:
    ann.tend()
    EmbeddingIndex.objects.update(active=False)
    ann.tend()
    assert not AnnIndex.objects.exists()
    assert hnsw_indexes() == {}


def test_a_build_that_fails_says_so_and_is_tried_again_later(
    large: Large, settings: Settings
) -> None:
    settings.ANN_BUILD_WORKERS = 100_000  # PostgreSQL refuses that
    with pytest.raises(AnnBuildFailed, match="sql_22023"):
        ann.ensure_ann(index=large.index)
    settings.ANN_BUILD_WORKERS = 0
    ann.tend()
    assert AnnIndex.objects.get().state == "failed"
    AnnIndex.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    ann.tend()
    row = AnnIndex.objects.get()
    assert (row.state, row.error_code) == ("ready", "")


def test_a_profile_that_names_another_index_gets_it_and_the_old_one_serves_meanwhile(
    large: Large,
) -> None:
    old = ann.ensure_ann(index=large.index)
    SearchProfile.objects.create(
        tenant=large.tenant,
        origin="manual",
        ef_search=100,
        leg_candidates=100,
        rerank_candidates=20,
        m=8,
        ef_construction=32,
        not_found_below=0.4,
        active=True,
    )
    options = SearchOptions(m=8, ef_construction=32)
    where = {"index": large.index, "options": options, "collection_ids": [large.collection.id]}
    plan = plan_search(**where)
    assert (plan.ann_id, plan.reason) == (
        old.id,
        "many chunks; the index asked for is not ready, another is",
    )
    ann.tend()
    assert plan_search(**where).ann_id == AnnIndex.objects.get(m=8).id
    assert AnnIndex.objects.filter(id=old.id).exists()
    AnnIndex.objects.filter(id=old.id).update(created_at=timezone.now() - timedelta(hours=25))
    ann.tend()
    assert not AnnIndex.objects.filter(id=old.id).exists()


def test_a_dropped_index_is_gone_from_the_database_too(large: Large) -> None:
    row = ann.ensure_ann(index=large.index)
    ann.drop_ann(row)
    assert not AnnIndex.objects.exists()
    assert hnsw_indexes() == {}


def test_a_search_planned_with_an_index_that_was_dropped_finds_everything(large: Large) -> None:
    row = ann.ensure_ann(index=large.index)
    plan = hnsw_plan(row, SearchOptions(), rows=600)
    ann.drop_ann(row)
    with transaction.atomic():
        found = vectors.search(
            index=large.index,
            collection_ids=[large.collection.id],
            question=QUESTION,
            limit=20,
            plan=plan,
        )
    assert list(found) == large.nearest(QUESTION, 20)


def test_building_within_a_transaction_is_refused(large: Large) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError):
        ann.ensure_ann(index=large.index)


def test_pages_see_the_states(large: Large) -> None:
    row = ann.request_ann(index=large.index)
    assert [(each.ann.id, each.progress) for each in ann.ann_states(large.tenant.id)] == [
        (row.id, None)
    ]
