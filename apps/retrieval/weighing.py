"""Weighing a collection's chunks anew when their average length is not what it was."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from django.db import connection
from pgvector import SparseVector

from apps.documents.services.versions import raise_version
from apps.retrieval import bm25
from apps.retrieval.models import ChunkTerms, CollectionStatistics, StagedChunk
from apps.tenants.scope import tenant_scope

BATCH = 500


def weigh_collection(*, tenant_id: uuid.UUID, collection_id: uuid.UUID) -> int:
    """Recompute all weights with today's average length; the number of chunks weighed.

    One transaction: weights of a collection's chunks of one generation always share one average.
    Term counts are had back from the old weights, so no text is read.
    """
    with tenant_scope(tenant_id):
        lock_collection(tenant_id, collection_id)
        kept = CollectionStatistics.objects.filter(tenant_id=tenant_id, collection_id=collection_id)
        count = sum(map(_weigh, kept.order_by("generation")))
        if count:  # the same passages may be found in another order
            raise_version(tenant_id=tenant_id, collection_id=collection_id)
        return count


def _weigh(statistics: CollectionStatistics) -> int:
    old, new = statistics.weighted_with_average, bm25.average_length(statistics)
    count = 0
    for batch in _batches(statistics):
        _store(statistics.tenant_id, [(row.id, reweighed(row, old, new)) for row in batch])
        count += len(batch)
    statistics.weighted_with_average = new
    statistics.save(update_fields=["weighted_with_average"])
    return count


def lock_collection(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> None:
    """Keep indexing out of the collection, and its documents from being deleted meanwhile.

    A deletion that began earlier is waited for; taken in the order deletions take them, the locks
    cannot deadlock with one.
    """
    with connection.cursor() as cursor:
        for statement in (
            "SELECT 1 FROM documents_collection WHERE tenant_id = %s AND id = %s FOR NO KEY UPDATE",
            "SELECT 1 FROM documents_document WHERE tenant_id = %s AND collection_id = %s "
            "ORDER BY id FOR KEY SHARE",
        ):
            cursor.execute(statement, [tenant_id, collection_id])


def _batches(statistics: CollectionStatistics) -> Iterator[list[ChunkTerms]]:
    last = 0
    while True:
        rows = ChunkTerms.objects.filter(
            tenant_id=statistics.tenant_id,
            collection_id=statistics.collection_id,
            generation=statistics.generation,
            id__gt=last,
        ).defer("terms")
        batch = list(rows.order_by("id")[:BATCH])
        if not batch:
            return
        yield batch
        last = batch[-1].id


def reweighed(row: ChunkTerms | StagedChunk, old: float, new: float) -> str:
    """The row's weights as they are with `new` for an average length instead of `old`."""
    weights: SparseVector = row.weights
    counts = {
        # pgvector's Python class counts dimensions from 0, its text form from 1.
        index + 1: bm25.term_frequency(weight, row.length, old)
        for index, weight in zip(weights.indices(), weights.values(), strict=True)
    }
    return bm25.sparse_text(bm25.document_weights(counts, row.length, new))


def _store(tenant_id: uuid.UUID, rows: list[tuple[int, str]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE retrieval_chunkterms AS kept SET weights = new.weights::sparsevec
            FROM unnest(%s::bigint[], %s::text[]) AS new (id, weights)
            WHERE kept.tenant_id = %s AND kept.id = new.id
            """,
            [[row[0] for row in rows], [row[1] for row in rows], tenant_id],
        )
