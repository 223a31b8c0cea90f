"""Writing a document's rows in the search tables: one COPY a table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from django.db import connection
from pgvector import HalfVector

from apps.documents.models import Chunk, Document
from apps.documents.selectors import chunks_of
from apps.retrieval import bm25
from apps.retrieval.analysis import detect_language, terms_of
from apps.retrieval.models import (
    ChunkTerms,
    ChunkVector,
    CollectionStatistics,
    EmbeddingIndex,
    IndexedDocument,
    StagedChunk,
)
from apps.retrieval.texts import indexed_text

LANGUAGE_SAMPLE_CHUNKS = 5

Halves = npt.NDArray[np.float16]


@dataclass(frozen=True)
class TermRow:
    """A chunk's BM25 input: how often each term occurs, and how many there are in all."""

    chunk_id: uuid.UUID
    length: int
    counts: dict[int, int]

    def columns(self, average: float) -> tuple[int, str, str]:
        """Length, terms and weights as the search table has them."""
        return (
            self.length,
            " ".join(f"'{term}'" for term in self.counts),
            bm25.sparse_text(bm25.document_weights(self.counts, self.length, average)),
        )


def language_of(document: Document) -> str:
    """The document's language, or the one its longest chunks seem to be in."""
    if document.language:
        return document.language
    chunks = chunks_of(document)
    longest = chunks.only("text", "heading_path").order_by("-token_count", "-ordinal")
    return detect_language(" ".join(map(indexed_text, longest[:LANGUAGE_SAMPLE_CHUNKS])))


def term_rows(language: str, chunks: Sequence[Chunk], texts: Sequence[str]) -> list[TermRow]:
    """Analyse the chunks' texts in a language."""
    analysed = []
    for chunk, text in zip(chunks, texts, strict=True):
        terms = terms_of(text, language)
        analysed.append(TermRow(chunk.id, len(terms), bm25.count_terms(terms)))
    return analysed


def replace(
    document: Document,
    index: EmbeddingIndex,
    chunks: Sequence[Chunk],
    vectors: Sequence[Halves],
    terms: Sequence[TermRow],
) -> None:
    """Make these the document's rows in `index` and in its generation's BM25, whatever there was.

    The caller holds the transaction and the collection's lock.
    """
    generation = index.generation
    average = weighing_average(document, generation, [row.length for row in terms])
    remove_from(index, document)
    copy_vectors(document, index, chunks, vectors)
    copy_terms(document, generation, terms, average)
    mark_indexed(document, index, len(chunks))


def remove_from(index: EmbeddingIndex, document: Document) -> None:
    """The document's rows in the index and in its generation's BM25 go."""
    key = {"tenant_id": document.tenant_id, "document_id": document.id}
    ChunkVector.objects.filter(**key, index=index, slot=index.slot).delete()
    ChunkTerms.objects.filter(**key, generation=index.generation).delete()


def mark_indexed(document: Document, index: EmbeddingIndex, chunk_count: int) -> None:
    """The document is wholly in `index`, as it stands now: in other indexes it is yet to be.

    What was read anew has new chunks; whatever an index had of it went with the old ones.
    """
    marks = IndexedDocument.objects.filter(tenant_id=document.tenant_id, document_id=document.id)
    marks.delete()
    IndexedDocument.objects.create(
        tenant_id=document.tenant_id, index=index, document=document, chunk_count=chunk_count
    )


def remove(tenant_id: uuid.UUID, document_ids: Sequence[uuid.UUID]) -> None:
    """Make these documents unfindable: their rows in all indexes and in BM25 go."""
    key = {"tenant_id": tenant_id, "document_id__in": document_ids}
    ChunkVector.objects.filter(**key).delete()
    ChunkTerms.objects.filter(**key).delete()
    StagedChunk.objects.filter(**key).delete()
    IndexedDocument.objects.filter(**key).delete()


def weighing_average(document: Document, generation: int, lengths: Sequence[int]) -> float:
    """The average length all weights of the collection's chunks of one generation share.

    Where it has no such chunks yet, that of the chunks with these `lengths`, its first.
    """
    statistics, _ = CollectionStatistics.objects.get_or_create(
        tenant_id=document.tenant_id,
        collection_id=document.collection_id,
        generation=generation,
    )
    if statistics.weighted_with_average <= 0 or statistics.chunk_count == 0:
        average = sum(lengths) / len(lengths) if lengths else 0.0
        statistics.weighted_with_average = max(average, 1.0)
        statistics.save(update_fields=["weighted_with_average"])
    return statistics.weighted_with_average


def copy_vectors(
    document: Document,
    index: EmbeddingIndex,
    chunks: Sequence[Chunk],
    vectors: Sequence[Halves],
) -> None:
    """Vectors of these chunks, one COPY, in the open transaction."""
    owner = (document.tenant_id, index.id, index.slot, document.collection_id, document.id)
    copy(
        "COPY search.chunkvector "
        "(tenant_id, index_id, slot, collection_id, document_id, chunk_id, embedding) FROM STDIN",
        (
            (*owner, chunk.id, HalfVector(vector).to_text())
            for chunk, vector in zip(chunks, vectors, strict=True)
        ),
    )


def copy_terms(
    document: Document, generation: int, terms: Sequence[TermRow], average: float
) -> None:
    """One statement for all rows: the triggers that keep the statistics run once a statement."""
    owner = (document.tenant_id, document.collection_id, document.id, generation)
    copy(
        "COPY retrieval_chunkterms "
        "(tenant_id, collection_id, document_id, generation, chunk_id, length, terms, weights) "
        "FROM STDIN",
        ((*owner, row.chunk_id, *row.columns(average)) for row in terms),
    )


def copy(statement: str, rows: Iterator[tuple[object, ...]]) -> None:
    """One COPY of all rows, in the open transaction."""
    with connection.cursor() as cursor, cursor.copy(statement) as target:
        for row in rows:
            target.write_row(row)
