"""Partitions of the vectors' table: made beside it, dropped whole, never anybody else's."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.db.utils import IntegrityError
from pytest_django import Settings

from apps.documents.models import Collection
from apps.documents.services import delete_tenant
from apps.retrieval import builds, slots
from apps.retrieval.models import ChunkVector, EmbeddingIndex
from apps.tenants.models import Tenant
from tests.retrieval.building import (
    OtherEmbedder,
    add_ready,
    hand_out,
    make_model,
    start,
    vectors_in,
    work,
)
from tests.retrieval.corpus import WordEmbedder

pytestmark = pytest.mark.django_db


def partitions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
            "WHERE inhparent = 'search.chunkvector'::regclass AND relkind = 'r'"
        )
        return {row[0] for row in cursor.fetchall()}


def make_index(tenant: Tenant, slot: int, model_id: str = "large") -> EmbeddingIndex:
    return EmbeddingIndex.objects.create(
        tenant=tenant, model_id=model_id, dimensions=32, chunker_version=1, slot=slot
    )


def test_small_tenants_share_a_partition(settings: Settings) -> None:
    settings.HNSW_ABOVE_CHUNKS = 100
    assert slots.choose_slot(chunk_count=100) == slots.SHARED


def test_large_indexes_get_the_smallest_slot_that_is_free(
    tenant: Tenant, settings: Settings
) -> None:
    settings.HNSW_ABOVE_CHUNKS = 100
    assert slots.choose_slot(chunk_count=101) == 1
    make_index(tenant, 1)
    slots.ensure_partition(2)  # left over: its index is gone, and it has not been dropped yet
    assert slots.choose_slot(chunk_count=101) == 3


def test_a_slot_is_one_indexs_own(tenant: Tenant) -> None:
    make_index(tenant, 1)
    with pytest.raises(IntegrityError):
        make_index(tenant, 1, "another")


def test_a_partition_is_made_once_and_dropped_whole(tenant: Tenant) -> None:
    slots.ensure_partition(7)
    slots.ensure_partition(7)
    assert "chunkvector_7" in partitions()
    slots.drop_partition(7)
    slots.drop_partition(7)
    assert "chunkvector_7" not in partitions()


def test_a_partition_that_was_half_made_is_made_anew(tenant: Tenant) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE search.chunkvector_7 (nonsense int)")
    slots.ensure_partition(7)
    assert "chunkvector_7" in partitions()


def test_the_shared_partition_is_never_dropped() -> None:
    slots.drop_partition(slots.SHARED)
    assert "chunkvector_0" in partitions()


def test_partitions_of_deleted_tenants_go_and_others_stay(tenant: Tenant) -> None:
    make_index(tenant, 3)
    for slot in (3, 4):
        slots.ensure_partition(slot)
    assert slots.drop_unused() == [4]
    assert {"chunkvector_0", "chunkvector_3"} <= partitions()
    assert "chunkvector_4" not in partitions()


@pytest.mark.django_db(transaction=True)
def test_a_large_tenants_new_index_is_searched_and_dropped_in_its_own_partition(
    tenant: Tenant,
    collection: Collection,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.HNSW_ABOVE_CHUNKS = 3
    model = make_model()
    hand_out(monkeypatch, WordEmbedder(), OtherEmbedder(), model)
    document = add_ready(collection, ["one", "two", "three", "four"])
    build = start(tenant, model)
    work()
    target = EmbeddingIndex.objects.get(id=build.target_id)
    assert target.slot == 1
    assert len(vectors_in(target)) == document.chunk_count
    shared = ChunkVector.objects.filter(tenant=tenant, index=target, slot=slots.SHARED)
    assert not shared.exists()
    builds.cancel_build(tenant=tenant, user=None, build_id=build.id)
    work()
    assert "chunkvector_1" not in partitions()
    assert not EmbeddingIndex.objects.filter(id=target.id).exists()


@pytest.mark.django_db(transaction=True)
def test_a_tenant_deleted_during_a_build_leaves_no_partition_behind(
    tenant: Tenant,
    collection: Collection,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.HNSW_ABOVE_CHUNKS = 3
    model = make_model()
    other = OtherEmbedder()
    hand_out(monkeypatch, WordEmbedder(), other, model)
    add_ready(collection, ["one", "two", "three", "four"])
    start(tenant, model)
    other.before_batch = lambda: delete_tenant(tenant=tenant, actor=None)
    work()
    assert "chunkvector_1" in partitions()
    assert slots.drop_unused() == [1]
    assert "chunkvector_1" not in partitions()


@pytest.mark.django_db(transaction=True)
def test_a_table_in_use_is_waited_for_briefly_and_tried_again(tenant: Tenant) -> None:
    """Nobody queues behind the wish for a lock for longer than a moment."""
    slots.ensure_partition(5)
    reading, done = threading.Event(), threading.Event()

    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT count(*) FROM search.chunkvector")
            reading.set()
            done.wait(30)
            cursor.execute("COMMIT")
        connection.close()

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(10)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        done.set()
        reader.join(10)

    slots.drop_partition(5, sleep=pause)
    assert len(pauses) == 1
    assert "chunkvector_5" not in partitions()


@pytest.mark.django_db(transaction=True)
def test_a_table_that_stays_in_use_is_given_up_for_now(tenant: Tenant) -> None:
    slots.ensure_partition(6)
    reading, done = threading.Event(), threading.Event()

    def read() -> None:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT count(*) FROM search.chunkvector")
            reading.set()
            done.wait(60)
            cursor.execute("COMMIT")
        connection.close()

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(10)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slots, "_ATTEMPTS", 2)
            with pytest.raises(slots.PartitionBusy):
                slots.drop_partition(6, sleep=lambda _: None)
    finally:
        done.set()
        reader.join(10)
    slots.drop_partition(6)
