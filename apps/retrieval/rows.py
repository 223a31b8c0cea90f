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
from apps.retrieval import bm25
from apps.retrieval.analysis import detect_language, terms_of
from apps.retrieval.models import (
    ChunkTerms,
    ChunkVector,
    CollectionStatistics,
    EmbeddingIndex,
    StagedChunk,
)

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


def term_rows(document: Document, chunks: Sequence[Chunk], texts: Sequence[str]) -> list[TermRow]:
    """Analyse the chunks' texts in the document's language, or the one it seems to be in."""
    language = document.language or detect_language(" ".join(texts[-LANGUAGE_SAMPLE_CHUNKS:]))
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
    """Make these the document's rows in `index` and in BM25, whatever there was.

    The caller holds the transaction and the collection's lock.
    """
    average = weighing_average(document, terms)
    key = {"tenant_id": document.tenant_id, "document_id": document.id}
    ChunkVector.objects.filter(**key, index=index).delete()
    ChunkTerms.objects.filter(**key).delete()
    _copy_vectors(document, index, chunks, vectors)
    _copy_terms(document, terms, average)


def remove(tenant_id: uuid.UUID, document_ids: Sequence[uuid.UUID]) -> None:
    """Make these documents unfindable: their rows in all indexes and in BM25 go."""
    key = {"tenant_id": tenant_id, "document_id__in": document_ids}
    ChunkVector.objects.filter(**key).delete()
    ChunkTerms.objects.filter(**key).delete()
    StagedChunk.objects.filter(**key).delete()


def weighing_average(document: Document, terms: Sequence[TermRow]) -> float:
    """The average length all weights of the collection share; its first document sets it."""
    statistics, _ = CollectionStatistics.objects.get_or_create(
        tenant_id=document.tenant_id, collection_id=document.collection_id
    )
    if statistics.weighted_with_average <= 0 or statistics.chunk_count == 0:
        average = sum(row.length for row in terms) / len(terms) if terms else 0.0
        statistics.weighted_with_average = max(average, 1.0)
        statistics.save(update_fields=["weighted_with_average"])
    return statistics.weighted_with_average


def stored_average(document: Document) -> float:
    """The average length the collection's weights have been made with."""
    found = CollectionStatistics.objects.get(
        tenant_id=document.tenant_id, collection_id=document.collection_id
    )
    return found.weighted_with_average


def _copy_vectors(
    document: Document,
    index: EmbeddingIndex,
    chunks: Sequence[Chunk],
    vectors: Sequence[Halves],
) -> None:
    owner = (document.tenant_id, index.id, document.collection_id, document.id)
    copy(
        "COPY retrieval_chunkvector "
        "(tenant_id, index_id, collection_id, document_id, chunk_id, embedding) FROM STDIN",
        (
            (*owner, chunk.id, HalfVector(vector).to_text())
            for chunk, vector in zip(chunks, vectors, strict=True)
        ),
    )


def _copy_terms(document: Document, terms: Sequence[TermRow], average: float) -> None:
    """One statement for all rows: the triggers that keep the statistics run once a statement."""
    owner = (document.tenant_id, document.collection_id, document.id)
    copy(
        "COPY retrieval_chunkterms "
        "(tenant_id, collection_id, document_id, chunk_id, length, terms, weights) FROM STDIN",
        ((*owner, row.chunk_id, *row.columns(average)) for row in terms),
    )


def copy(statement: str, rows: Iterator[tuple[object, ...]]) -> None:
    """One COPY of all rows, in the open transaction."""
    with connection.cursor() as cursor, cursor.copy(statement) as target:
        for row in rows:
            target.write_row(row)
