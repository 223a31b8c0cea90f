"""Indexing a large document piece by piece, unseen until it is whole.

A small document's rows are written in one transaction with "ready". A large one's vectors take
minutes to hours to make: they are staged in short transactions, so that memory stays flat, other
documents get their turn in between, and a killed worker loses one piece. Publishing moves them
into the search tables in one transaction, inside the database.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.models import QuerySet
from pgvector import HalfVector, SparseVector

from apps.documents.models import Chunk, Document
from apps.retrieval import rows
from apps.retrieval.models import EmbeddingIndex, StagedChunk
from apps.retrieval.rows import Halves, TermRow
from apps.retrieval.weighing import reweighed

_REWEIGH_BATCH = 500
_MOVE_VECTORS = """
    INSERT INTO search.chunkvector
        (tenant_id, index_id, slot, collection_id, document_id, chunk_id, embedding)
    SELECT tenant_id, index_id, %s, %s, document_id, chunk_id, embedding FROM retrieval_stagedchunk
    WHERE tenant_id = %s AND document_id = %s AND index_id = %s
"""
_MOVE_TERMS = """
    INSERT INTO retrieval_chunkterms
        (tenant_id, generation, collection_id, document_id, chunk_id, length, terms, weights)
    SELECT tenant_id, %s, %s, document_id, chunk_id, length, terms, weights
    FROM retrieval_stagedchunk
    WHERE tenant_id = %s AND document_id = %s AND index_id = %s
"""


def count_staged(document: Document, index: EmbeddingIndex) -> int:
    """Chunks that are done: the first ones, for they are staged in order."""
    return _staged(document, index).count()


def stage(
    document: Document,
    index: EmbeddingIndex,
    chunks: Sequence[Chunk],
    vectors: Sequence[Halves],
    terms: Sequence[TermRow],
) -> None:
    """Keep these rows, in the caller's transaction, which holds the job."""
    average = rows.weighing_average(document, index.generation, [term.length for term in terms])
    owner = (document.tenant_id, document.id, index.id)
    rows.copy(
        "COPY retrieval_stagedchunk (tenant_id, document_id, index_id, chunk_id, embedding, "
        "length, terms, weights, average) FROM STDIN",
        (
            (*owner, chunk.id, HalfVector(vector).to_text(), *term.columns(average), average)
            for chunk, vector, term in zip(chunks, vectors, terms, strict=True)
        ),
    )


def publish(document: Document, index: EmbeddingIndex) -> None:
    """Make the staged rows the document's only rows, in the caller's transaction.

    The caller holds the collection's lock: the weights of a collection share one average, and
    rows staged with another are weighed anew.
    """
    lengths = _staged(document, index).values_list("length", flat=True)
    average = rows.weighing_average(document, index.generation, list(lengths))
    rows.remove_from(index, document)
    _reweigh(document, index, average)
    values = [document.collection_id, document.tenant_id, document.id, index.id]
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_VECTORS, [index.slot, *values])
        cursor.execute(_MOVE_TERMS, [index.generation, *values])
    staged = StagedChunk.objects.filter(tenant_id=document.tenant_id, document_id=document.id)
    rows.mark_indexed(document, index, staged.filter(index=index).count())
    staged.delete()


def _reweigh(document: Document, index: EmbeddingIndex, average: float) -> None:
    while batch := list(
        _staged(document, index)
        .exclude(average=average)
        .defer("terms", "embedding")[:_REWEIGH_BATCH]
    ):
        for row in batch:
            row.weights = SparseVector.from_text(reweighed(row, row.average, average))
            row.average = average
        StagedChunk.objects.bulk_update(batch, ["weights", "average"])


def _staged(document: Document, index: EmbeddingIndex) -> QuerySet[StagedChunk]:
    return StagedChunk.objects.filter(
        tenant_id=document.tenant_id, document_id=document.id, index=index
    )
