"""Vector search in one tenant's index."""

from __future__ import annotations

import re
import uuid

import numpy as np
import pytest
from django.db import connection

from apps.documents.models import Collection
from apps.retrieval import vectors
from apps.retrieval.models import ChunkVector
from apps.retrieval.plans import SearchPlan
from apps.tenants.models import Tenant
from tests.retrieval.corpus import (
    WordEmbedder,
    chunk_ids,
    delete_document,
    make_collection,
    make_document,
    write_rows,
)
from tests.retrieval.test_bm25 import made_up_texts

pytestmark = pytest.mark.django_db

QUESTION = WordEmbedder().embed_query("battery warranty refund")


def test_the_nearest_are_found_in_order(collection: Collection) -> None:
    texts = made_up_texts(40)
    document = make_document(collection, texts)
    index = write_rows(document)
    found = vectors.search(index=index, collection_ids=[collection.id], question=QUESTION, limit=10)
    cosines = WordEmbedder().embed_documents(texts) @ QUESTION
    order = np.argsort(-cosines)[:10]
    ids = chunk_ids(document)
    assert list(found) == [ids[n] for n in order]
    assert list(found.values()) == pytest.approx(cosines[order].tolist(), abs=2e-3)


def test_given_chunks_are_scored(collection: Collection) -> None:
    document = make_document(collection, made_up_texts(5))
    index = write_rows(document)
    wanted = chunk_ids(document)[:2]
    everything = vectors.search(
        index=index, collection_ids=[collection.id], question=QUESTION, limit=10
    )
    found = vectors.score(index=index, chunk_ids=[*wanted, uuid.uuid4()], question=QUESTION)
    assert found == {chunk: pytest.approx(everything[chunk]) for chunk in wanted}


def test_only_the_collections_given_are_searched(tenant: Tenant, collection: Collection) -> None:
    other = make_collection(tenant, "Other")
    index = write_rows(make_document(collection, made_up_texts(5)))
    write_rows(make_document(other, made_up_texts(5)))
    theirs = ChunkVector.objects.filter(tenant=tenant, collection=other)
    found = vectors.search(index=index, collection_ids=[other.id], question=QUESTION, limit=100)
    assert set(found) == set(theirs.values_list("chunk", flat=True))
    assert not vectors.search(index=index, collection_ids=[], question=QUESTION, limit=100)


def test_another_tenants_vectors_are_not_found_with_guessed_ids(collection: Collection) -> None:
    document = make_document(collection, made_up_texts(5))
    write_rows(document)
    rival = Tenant.objects.create(slug="rival", name="Rival")
    index = write_rows(make_document(make_collection(rival), made_up_texts(1)))
    found = vectors.search(
        index=index, collection_ids=[collection.id], question=QUESTION, limit=100
    )
    assert found == {}
    assert not vectors.score(index=index, chunk_ids=chunk_ids(document), question=QUESTION)


def test_deleting_a_document_removes_its_vectors(tenant: Tenant, collection: Collection) -> None:
    document = make_document(collection, made_up_texts(5))
    write_rows(document)
    delete_document(document)
    assert not ChunkVector.objects.filter(tenant=tenant).exists()


def test_a_small_tenant_among_many_rows_is_read_through_its_index(collection: Collection) -> None:
    write_rows(make_document(collection, made_up_texts(200)))
    rival = Tenant.objects.create(slug="rival", name="Rival")
    mine = make_collection(rival)
    index = write_rows(make_document(mine, made_up_texts(5)))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        (sent,) = vectors.statements(
            index=index, collection_ids=[mine.id], question=QUESTION, limit=10
        )
        cursor.execute(f"EXPLAIN {sent.sql}", sent.parameters)
        # Which of those that begin with the tenant, is for PostgreSQL's statistics to say.
        assert re.search(
            r"Index Scan (using|on) chunkvector_0_tenant_id",
            "\n".join(row[0] for row in cursor.fetchall()),
        )


def test_only_the_partition_of_the_index_is_read(collection: Collection) -> None:
    index = write_rows(make_document(collection, made_up_texts(5)))
    index.slot = 4  # where nothing is
    arguments = {"index": index, "question": QUESTION}
    assert not vectors.search(**arguments, collection_ids=[collection.id], limit=10)
    found = ChunkVector.objects.values_list("chunk", flat=True)
    assert not vectors.score(**arguments, chunk_ids=list(found))


@pytest.mark.django_db(transaction=True)
def test_an_hnsw_search_outside_a_transaction_is_refused(collection: Collection) -> None:
    """Its settings would be gone before it is sent, and rows would be missing unseen."""
    index = write_rows(make_document(collection, made_up_texts(5)))
    with pytest.raises(RuntimeError, match="transaction"):
        vectors.search(
            index=index,
            collection_ids=[collection.id],
            question=QUESTION,
            limit=10,
            plan=SearchPlan("hnsw", "asked for", 5, ef_search=100, ann_id=1),
        )


def test_a_question_is_sent_as_exactly_as_a_half_holds_it() -> None:
    halves = np.random.default_rng(1).standard_normal(1000).astype(np.float16)
    sent = np.array([float(each) for each in vectors._text(halves)[1:-1].split(",")])
    assert (sent.astype(np.float16) == halves).all()
