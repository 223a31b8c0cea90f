"""Chunks of two generations side by side: each is weighed, searched and shown by itself."""

from __future__ import annotations

import pytest

from apps.documents import jobs
from apps.documents.checking.types import Options
from apps.documents.chunkings import chunking_in_force, chunking_of
from apps.documents.models import (
    Chunk,
    Chunking,
    Collection,
    Document,
    DocumentState,
    Job,
    Stage,
)
from apps.documents.selectors import chunks_of
from apps.retrieval import bm25, checking, rows, selectors
from apps.retrieval.analysis import terms_of
from apps.retrieval.indexing import index_next
from apps.retrieval.models import (
    CollectionStatistics,
    EmbeddingIndex,
    IndexedDocument,
    TermFrequency,
)
from apps.retrieval.pipeline import retrieve
from apps.retrieval.texts import indexed_text
from apps.telemetry.hops import Trace
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import DIMENSIONS, WordEmbedder, make_document, write_rows

pytestmark = pytest.mark.django_db

OLD = ["The battery lasts two years.", "Printers are cleaned with a cloth."]
NEW = ["The battery lasts two years. Printers are cleaned with a cloth."]


@pytest.fixture
def document(collection: Collection) -> Document:
    made = make_document(collection, OLD, state=DocumentState.READY)
    write_rows(made)
    return made


def cut_anew(document: Document, texts: list[str] = NEW, generation: int = 1) -> EmbeddingIndex:
    """Chunks of another generation, indexed beside the old ones; not in force."""
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant_id=document.tenant_id,
        model_id=WordEmbedder.model_id,
        dimensions=DIMENSIONS,
        chunker_version=1,
        generation=generation,
    )
    with tenant_scope(document.tenant_id):
        chunks = [
            Chunk.objects.create(
                tenant_id=document.tenant_id,
                document=document,
                generation=generation,
                ordinal=ordinal,
                text=text,
                char_start=ordinal * 1000,
                char_end=ordinal * 1000 + len(text),
                page_first=1,
                page_last=1,
                token_count=len(text.split()),
            )
            for ordinal, text in enumerate(texts)
        ]
        texts = [indexed_text(chunk) for chunk in chunks]
        vectors = [WordEmbedder().embed_query(text).astype("float16") for text in texts]
        terms = rows.term_rows("en", chunks, texts)
        rows.copy_vectors(document, index, chunks, vectors)
        average = rows.weighing_average(document, generation, [row.length for row in terms])
        rows.copy_terms(document, generation, terms, average)
        IndexedDocument.objects.create(
            tenant_id=document.tenant_id, index=index, document=document, chunk_count=len(chunks)
        )
    return index


def switch(document: Document, index: EmbeddingIndex) -> None:
    with tenant_scope(document.tenant_id):
        EmbeddingIndex.objects.filter(tenant_id=document.tenant_id).update(active=False)
        EmbeddingIndex.objects.filter(id=index.id).update(active=True)
        count = Chunk.objects.filter(document=document, generation=index.generation).count()
        Document.objects.filter(tenant_id=document.tenant_id).update(
            generation=index.generation, chunk_count=count
        )


def ask(document: Document, question: str = "How long does the battery last?") -> list[str]:
    found = retrieve(
        tenant_id=document.tenant_id,
        question=question,
        collection_ids=[document.collection_id],
        trace=Trace(document.tenant_id, "answer"),
    )
    return [passage.text for passage in found.passages]


def findings(tenant: Tenant) -> set[str]:
    options = Options(deep=True)
    return {found.kind for check in checking.CHECKS for found in check(tenant.id, options)}


@pytest.mark.usefixtures("embedder", "reranker")
def test_only_chunks_of_the_generation_in_force_are_found(document: Document) -> None:
    index = cut_anew(document)
    assert set(ask(document)) == set(OLD)
    switch(document, index)
    assert ask(document) == NEW


def test_only_chunks_of_the_generation_in_force_are_shown(document: Document) -> None:
    index = cut_anew(document)
    with tenant_scope(document.tenant_id):
        assert [chunk.text for chunk in chunks_of(document)] == OLD
    switch(document, index)
    document.generation = 1
    with tenant_scope(document.tenant_id):
        assert [chunk.text for chunk in chunks_of(document)] == NEW


def test_each_generation_is_counted_by_itself(document: Document, collection: Collection) -> None:
    cut_anew(document)
    counted = CollectionStatistics.objects.filter(collection=collection).order_by("generation")
    assert [row.chunk_count for row in counted] == [2, 1]
    [battery] = terms_of("battery")
    for generation, frequency in ((0, 1), (1, 1)):
        statistics = bm25.read_statistics(
            tenant_id=document.tenant_id,
            collection_ids=[collection.id],
            terms=[battery],
            generation=generation,
        )
        assert (statistics.chunk_count, statistics.frequencies) == (
            2 - generation,
            {battery: frequency},
        )


def test_a_generation_goes_without_the_other(document: Document, collection: Collection) -> None:
    cut_anew(document)
    with tenant_scope(document.tenant_id):
        Chunk.objects.filter(document=document, generation=0).delete()
    counted = CollectionStatistics.objects.filter(collection=collection).order_by("generation")
    assert [(row.chunk_count, row.generation) for row in counted] == [(0, 0), (1, 1)]
    assert set(TermFrequency.objects.values_list("generation", flat=True)) == {1}


def test_two_generations_are_in_order(document: Document, tenant: Tenant) -> None:
    index = cut_anew(document)
    assert findings(tenant) == set()
    switch(document, index)
    assert findings(tenant) == set()


def test_a_document_that_an_index_lacks_rows_of_is_unmarked(
    document: Document, tenant: Tenant
) -> None:
    beside = IndexedDocument.objects.filter(index=cut_anew(document))
    beside.update(chunk_count=7)
    [found] = list(checking.false_marks(tenant.id, Options()))
    assert found.kind == "false_mark"
    assert found.repair is not None
    found.repair()
    assert not beside.exists()


@pytest.mark.usefixtures("embedder")
def test_a_document_read_in_an_old_generation_is_cut_anew(
    document: Document, collection: Collection
) -> None:
    late = make_document(collection, OLD)
    switch(document, cut_anew(document))
    with tenant_scope(document.tenant_id):
        Document.objects.filter(id=late.id).update(generation=0)
    assert index_next()
    with tenant_scope(document.tenant_id):
        assert Document.objects.get(id=late.id).state != DocumentState.READY
    assert Job.objects.get(document=late).stage == Stage.INGEST


@pytest.mark.usefixtures("reranker")
def test_a_switch_while_a_document_is_embedded_is_not_lost_on_it(
    document: Document, collection: Collection, embedder: WordEmbedder
) -> None:
    """What was embedded for the old index is not written: it is begun again for the new one."""
    late = make_document(collection, ["The roof is mended."])
    beside = EmbeddingIndex.objects.create(
        tenant_id=document.tenant_id, model_id="words", dimensions=DIMENSIONS, chunker_version=2
    )
    embed = embedder.embed_documents

    def switching(texts: list[str]) -> object:
        EmbeddingIndex.objects.filter(tenant_id=document.tenant_id).update(active=False)
        EmbeddingIndex.objects.filter(id=beside.id).update(active=True)
        return embed(texts)

    embedder.embed_documents = switching  # type: ignore[method-assign, assignment]
    index_next()
    assert not IndexedDocument.objects.filter(document=late).exists()
    embedder.embed_documents = embed  # type: ignore[method-assign]
    index_next()
    assert IndexedDocument.objects.get(document=late).index == beside
    assert jobs.waiting(Stage.INDEX) == 0


def test_without_a_chunking_documents_are_cut_as_the_settings_say(tenant: Tenant) -> None:
    assert (chunking_in_force(tenant.id).max_tokens, chunking_in_force(tenant.id).generation) == (
        200,
        0,
    )
    Chunking.objects.create(tenant=tenant, generation=1, max_tokens=90, overlap_tokens=9)
    assert chunking_in_force(tenant.id).generation == 0
    assert chunking_of(tenant.id, 1).max_tokens == 90
    Chunking.objects.filter(tenant=tenant).update(in_force=True)
    assert chunking_in_force(tenant.id).max_tokens == 90
    assert selectors.active_index(tenant.id) is None
