"""Large documents: indexed in pieces, unseen until they are whole, with the rows of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.db import connection
from django.utils import timezone

from apps.documents import jobs
from apps.documents.models import Chunk, Collection, Document, DocumentState, Job, Stage
from apps.inference import errors, registry
from apps.inference.types import Vectors
from apps.retrieval import indexing
from apps.retrieval.embedding import EMBED_ATTEMPTS
from apps.retrieval.indexing import index_next
from apps.retrieval.models import (
    ChunkTerms,
    ChunkVector,
    CollectionStatistics,
    StagedChunk,
    TermFrequency,
)
from apps.telemetry.models import Span
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import (
    WordEmbedder,
    delete_document,
    make_collection,
    make_document,
    write_rows,
)
from tests.retrieval.test_bm25 import made_up_texts
from tests.retrieval.test_statistics import kept, recounted

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "STAGE_ABOVE", 8)
    monkeypatch.setattr(indexing, "PIECE_CHUNKS", 8)


def index() -> None:
    index_next(sleep=lambda _: None)


def state_of(document: Document) -> str:
    with tenant_scope(document.tenant_id):
        return Document.objects.get(id=document.id).state


def rows_of(collection: Collection) -> list[tuple[object, ...]]:
    """Everything search knows of a collection, without the identifiers."""
    with tenant_scope(collection.tenant_id):
        ordinals = dict(
            Chunk.objects.filter(document__collection=collection).values_list("id", "text")
        )
    key = {"tenant_id": collection.tenant_id, "collection_id": collection.id}
    return sorted(
        [
            *(
                ("vector", ordinals[row.chunk_id], str(row.embedding))
                for row in ChunkVector.objects.filter(**key)
            ),
            *(
                ("terms", ordinals[row.chunk_id], row.length, row.terms, row.weights.to_text())
                for row in ChunkTerms.objects.filter(**key)
            ),
            *(
                ("totals", row.chunk_count, row.total_length, row.weighted_with_average)
                for row in CollectionStatistics.objects.filter(**key)
            ),
            *(
                ("frequency", row.term, row.chunk_count)
                for row in TermFrequency.objects.filter(**key)
            ),
        ],
        key=str,
    )


@pytest.mark.parametrize("language", ["", "de"])
def test_the_rows_of_both_ways_are_the_same(
    tenant: Tenant,
    embedder: WordEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    language: str,
) -> None:
    """Of uneven pieces, so that a piece's average length is not the document's."""
    texts = [*made_up_texts(20, seed=1), *("Die Häuser und der Wald " * n for n in range(1, 12))]
    pieces, whole = make_collection(tenant, "pieces"), make_collection(tenant, "whole")
    for collection, limit in ((pieces, 8), (whole, 1000)):
        monkeypatch.setattr(indexing, "STAGE_ABOVE", limit)
        make_document(collection, texts, language=language)
        index()
    assert rows_of(pieces) == rows_of(whole)
    assert len(rows_of(pieces)) > 2 * len(texts)
    assert not StagedChunk.objects.exists()
    assert kept(tenant) == recounted(tenant)


def test_nobody_finds_a_piece(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    assert StagedChunk.objects.filter(document=document).count() == 16
    assert not ChunkVector.objects.exists()
    assert not ChunkTerms.objects.exists()
    assert kept(tenant) == ({}, {})


def stop_after(embedder: WordEmbedder, *, pieces: int) -> None:
    """Index until so many pieces are done, and die."""
    embed = embedder.embed_documents

    def embed_some(texts: Sequence[str]) -> Vectors:
        if len(embedder.batches) >= pieces:
            raise SystemExit
        return embed(texts)

    embedder.embed_documents = embed_some  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        index()
    embedder.embed_documents = embed  # type: ignore[method-assign]
    Job.objects.update(lease_expires_at=timezone.now())


def test_what_was_staged_before_a_kill_is_not_embedded_again(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    index()
    assert embedder.batches == [8, 8, 8, 6]
    assert state_of(document) == DocumentState.READY
    assert ChunkVector.objects.filter(document=document).count() == 30


def test_a_long_way_with_many_kills_is_not_taken_for_poison(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(60))
    for pieces in range(1, 7):
        stop_after(embedder, pieces=pieces)
    index()
    assert state_of(document) == DocumentState.READY


def test_an_embedder_that_goes_away_midway_costs_nothing_done(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=1)
    embedder.failures = [errors.Unavailable("down")] * EMBED_ATTEMPTS
    index()
    assert state_of(document) == DocumentState.INDEXING
    Job.objects.update(not_before=timezone.now())
    index()
    assert embedder.batches == [8, 8, 8, 6]


def test_a_large_document_gives_way_to_others_and_goes_on(
    collection: Collection, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "SLICE_S", 0.0)
    large = make_document(collection, made_up_texts(30))
    small = make_document(collection, ["one"])
    index()
    span = Span.objects.get(trace_id=large.id)
    assert (span.status, span.error_code) == ("skipped", "gave_turn")
    assert span.attributes["chunks"] == 8
    index()
    assert (state_of(small), state_of(large)) == (DocumentState.READY, DocumentState.INDEXING)
    index()  # nobody else waits: to its end
    assert state_of(large) == DocumentState.READY
    assert embedder.batches == [8, 1, 8, 8, 6]


def test_other_documents_that_are_ready_first_set_the_weights(
    tenant: Tenant, collection: Collection, embedder: WordEmbedder
) -> None:
    """The collection was empty when the first piece was weighed."""
    texts = made_up_texts(30)
    large = make_document(collection, texts)
    stop_after(embedder, pieces=2)
    write_rows(make_document(collection, ["a few words"]))
    index()
    assert state_of(large) == DocumentState.READY
    other = make_collection(tenant, "other")
    write_rows(make_document(other, ["a few words"]))
    write_rows(make_document(other, texts))
    assert terms_rows(collection) == terms_rows(other)
    assert kept(tenant) == recounted(tenant)


def terms_rows(collection: Collection) -> list[tuple[int, str, str]]:
    found = ChunkTerms.objects.filter(collection=collection)
    return sorted((row.length, str(row.terms), row.weights.to_text()) for row in found)


def test_another_model_starts_its_own_pieces(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    embedder.model_id = "other"
    embedder.batches = []
    index()
    assert embedder.batches == [8, 8, 8, 6]
    assert not StagedChunk.objects.filter(document=document).exists()


def test_reading_a_document_anew_drops_its_pieces(
    collection: Collection, embedder: WordEmbedder
) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    with tenant_scope(collection.tenant_id):
        Chunk.objects.filter(document=document).delete()
    assert not StagedChunk.objects.exists()


def test_pieces_go_with_their_document(collection: Collection, embedder: WordEmbedder) -> None:
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    delete_document(document)
    assert not StagedChunk.objects.exists()
    index()


def test_an_attempt_that_was_taken_over_stages_nothing(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make_document(collection, made_up_texts(30))
    taken: list[jobs.Claim | None] = []

    class Stolen(WordEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Vectors:
            Job.objects.update(lease_expires_at=timezone.now())
            taken.append(jobs.take(Stage.INDEX))
            return super().embed_documents(texts)

    monkeypatch.setattr(registry, "get_embedder", Stolen)
    index()
    assert len(taken) == 1
    assert not StagedChunk.objects.filter(document=document).exists()


def test_pieces_lost_with_the_database_are_made_again(
    collection: Collection, embedder: WordEmbedder
) -> None:
    """The table is unlogged: PostgreSQL empties it after a crash."""
    document = make_document(collection, made_up_texts(30))
    stop_after(embedder, pieces=2)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM retrieval_stagedchunk")
    index()
    assert state_of(document) == DocumentState.READY
    assert ChunkVector.objects.filter(document=document).count() == 30
