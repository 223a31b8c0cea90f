"""BM25's statistics stay true whatever adds or removes rows, and whoever does it at once."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter

import pytest
from django.db import connection

from apps.documents.models import Collection, Document
from apps.retrieval import bm25
from apps.retrieval.models import ChunkTerms, CollectionStatistics, TermFrequency
from apps.retrieval.weighing import weigh_collection
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import delete_document, make_collection, make_document, write_rows
from tests.retrieval.test_bm25 import made_up_texts, search

pytestmark = pytest.mark.django_db


def kept(tenant: Tenant) -> tuple[dict[uuid.UUID, tuple[int, int]], Counter[tuple[uuid.UUID, int]]]:
    totals = CollectionStatistics.objects.filter(tenant=tenant, chunk_count__gt=0)
    terms = TermFrequency.objects.filter(tenant=tenant)
    return (
        {row.collection_id: (row.chunk_count, row.total_length) for row in totals},
        Counter({(row.collection_id, row.term): row.chunk_count for row in terms}),
    )


def recounted(
    tenant: Tenant,
) -> tuple[dict[uuid.UUID, tuple[int, int]], Counter[tuple[uuid.UUID, int]]]:
    totals: dict[uuid.UUID, tuple[int, int]] = {}
    terms: Counter[tuple[uuid.UUID, int]] = Counter()
    for row in ChunkTerms.objects.filter(tenant=tenant):
        chunks, length = totals.get(row.collection_id, (0, 0))
        totals[row.collection_id] = (chunks + 1, length + row.length)
        terms.update((row.collection_id, index + 1) for index in row.weights.indices())
    return totals, terms


def test_after_any_mix_of_additions_and_deletions_they_equal_a_recount(tenant: Tenant) -> None:
    chance = random.Random(7)  # noqa: S311 - a fixed mix
    collections = [make_collection(tenant, f"Collection {n}") for n in range(3)]
    documents: list[Document] = []
    for step in range(25):
        if documents and chance.random() < 0.4:
            delete_document(documents.pop(chance.randrange(len(documents))))
        else:
            texts = made_up_texts(chance.randint(1, 8), seed=step)
            documents.append(make_document(chance.choice(collections), texts))
            write_rows(documents[-1])
    assert kept(tenant) == recounted(tenant)
    assert kept(tenant)[0]


def test_writing_a_document_again_counts_it_once(tenant: Tenant, collection: Collection) -> None:
    document = make_document(collection, made_up_texts(6))
    write_rows(document)
    before = kept(tenant)
    write_rows(document)
    assert kept(tenant) == before == recounted(tenant)


def test_deleting_many_documents_in_one_statement_counts_each(
    tenant: Tenant, collection: Collection
) -> None:
    for seed in range(4):
        write_rows(make_document(collection, made_up_texts(5, seed=seed)))
    with tenant_scope(tenant.id):
        first_two = Document.objects.filter(tenant=tenant).order_by("created_at")[:2]
        Document.objects.filter(tenant=tenant, id__in=[each.id for each in first_two]).delete()
    assert kept(tenant) == recounted(tenant)
    assert kept(tenant)[0][collection.id][0] == 10


def test_deleting_a_collection_leaves_no_statistics(tenant: Tenant, collection: Collection) -> None:
    other = make_collection(tenant, "Other")
    for each in (collection, other):
        write_rows(make_document(each, made_up_texts(5)))
    with tenant_scope(tenant.id), connection.cursor() as cursor:
        cursor.execute("DELETE FROM documents_collection WHERE id = %s", [collection.id])
    assert not CollectionStatistics.objects.filter(collection_id=collection.id).exists()
    assert not TermFrequency.objects.filter(collection_id=collection.id).exists()
    assert kept(tenant) == recounted(tenant)
    assert list(kept(tenant)[0]) == [other.id]


def test_another_tenants_statistics_do_not_move(tenant: Tenant, collection: Collection) -> None:
    rival = Tenant.objects.create(slug="rival", name="Rival")
    write_rows(make_document(collection, made_up_texts(5)))
    before = kept(tenant)
    document = make_document(make_collection(rival), made_up_texts(5))
    write_rows(document)
    delete_document(document)
    assert kept(tenant) == before
    assert kept(rival) == ({}, Counter())


def test_weighing_anew_gives_the_weights_of_a_fresh_collection(
    tenant: Tenant, collection: Collection
) -> None:
    short, long = ["battery item1", "screen item2"], made_up_texts(12)
    first = make_document(collection, short)
    write_rows(first)
    write_rows(make_document(collection, long))
    assert bm25.has_drifted(tenant.id, collection.id, 0)
    assert weigh_collection(tenant_id=tenant.id, collection_id=collection.id) == 14
    assert not bm25.has_drifted(tenant.id, collection.id, 0)
    fresh = make_collection(tenant, "Fresh")
    write_rows(make_document(fresh, [*short, *long]))
    expected = sorted(search(tenant, [fresh], "battery screen item2").values())
    found = sorted(search(tenant, [collection], "battery screen item2").values())
    assert found == pytest.approx(expected, rel=1e-3)


def test_weighing_a_collection_that_is_gone_does_nothing(tenant: Tenant) -> None:
    assert weigh_collection(tenant_id=tenant.id, collection_id=uuid.uuid4()) == 0


@pytest.mark.django_db(transaction=True)
def test_writers_deleters_and_weighers_at_once_neither_deadlock_nor_miscount(
    tenant: Tenant,
) -> None:
    collection = make_collection(tenant)
    doomed = [make_document(collection, made_up_texts(4, seed=n)) for n in range(6)]
    for document in doomed:
        write_rows(document)
    fresh = [make_document(collection, made_up_texts(6, seed=50 + n)) for n in range(6)]
    failures: list[BaseException] = []

    def run(*steps: object) -> None:
        try:
            for step in steps:
                step()  # type: ignore[operator]
        except BaseException as exc:
            failures.append(exc)
        finally:
            connection.close()

    def weigh() -> None:
        weigh_collection(tenant_id=tenant.id, collection_id=collection.id)

    threads = [
        threading.Thread(target=run, args=[lambda d=d: write_rows(d) for d in fresh[:3]]),
        threading.Thread(target=run, args=[lambda d=d: write_rows(d) for d in fresh[3:]]),
        threading.Thread(target=run, args=[lambda d=d: delete_document(d) for d in doomed[:3]]),
        threading.Thread(target=run, args=[lambda d=d: delete_document(d) for d in doomed[3:]]),
        threading.Thread(target=run, args=[weigh, weigh, weigh]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert kept(tenant) == recounted(tenant)
    assert kept(tenant)[0][collection.id][0] == 36
