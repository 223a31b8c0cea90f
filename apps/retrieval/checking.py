"""What must be true of the search tables, and all checks in their order: `manage.py fsck`.

Each check is one statement per tenant inside the database; what comes out is a row a document that
is wrong, or a collection, so memory stays flat whatever the size.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection

from apps.documents import checking as documents
from apps.documents.checking import Check, Finding, Options
from apps.documents.checking.repairs import index_again, locked
from apps.documents.checking.types import snapshot
from apps.documents.models import Document, DocumentState
from apps.retrieval import rows
from apps.retrieval.models import IndexedDocument, StagedChunk
from apps.retrieval.weighing import lock_collection
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

# Chunks of ready documents without a vector in the active index, or without a BM25 row.
# `elsewhere`: the vector is in another index, whose model is not the one that is searched with.
_UNFINDABLE = """
    SELECT document.id, count(*) AS chunks,
        count(*) FILTER (WHERE vector.id IS NULL) AS no_vector,
        count(*) FILTER (WHERE vector.id IS NULL AND EXISTS (
            SELECT FROM search.chunkvector AS other
            WHERE other.tenant_id = chunk.tenant_id AND other.chunk_id = chunk.id)) AS elsewhere,
        count(*) FILTER (WHERE term.id IS NULL) AS no_terms
    FROM documents_document AS document
    JOIN documents_chunk AS chunk
        ON chunk.tenant_id = document.tenant_id AND chunk.document_id = document.id
        AND chunk.generation = document.generation
    LEFT JOIN search.chunkvector AS vector
        ON vector.tenant_id = chunk.tenant_id AND vector.chunk_id = chunk.id
        AND vector.index_id = (SELECT id FROM retrieval_embeddingindex
            WHERE tenant_id = %(tenant)s AND active)
    LEFT JOIN retrieval_chunkterms AS term
        ON term.tenant_id = chunk.tenant_id AND term.chunk_id = chunk.id
    WHERE document.tenant_id = %(tenant)s AND document.state = 'ready'
        AND (%(only)s::uuid IS NULL OR document.id = %(only)s)
    GROUP BY document.id
    HAVING count(vector.id) < count(*) OR count(term.id) < count(*)
    ORDER BY document.id
"""
# Rows whose chunk is another document's, or whose document is in another collection.
_MISPLACED_IN = """
    SELECT row.document_id
    FROM {table} AS row
    LEFT JOIN documents_chunk AS chunk
        ON chunk.tenant_id = %(tenant)s AND chunk.id = row.chunk_id
    LEFT JOIN documents_document AS document
        ON document.tenant_id = %(tenant)s AND document.id = row.document_id
    WHERE row.tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR row.document_id = %(only)s)
        AND (chunk.document_id IS DISTINCT FROM row.document_id
            OR document.collection_id IS DISTINCT FROM row.collection_id)
"""
_MISPLACED = f"""
    SELECT document_id, count(*) FROM (
        {_MISPLACED_IN.format(table="search.chunkvector")}
        UNION ALL
        {_MISPLACED_IN.format(table="retrieval_chunkterms")}
    ) AS misplaced GROUP BY document_id ORDER BY document_id
"""  # noqa: S608 - tables of ours
# Rows of documents that nobody is to find. One that was ready and is being read again keeps its
# rows until they are replaced.
_UNWANTED = """
    SELECT id, state FROM documents_document AS document
    WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR id = %(only)s)
        AND (state IN ('failed', 'superseded')
            OR (state IN ('received', 'parsing', 'indexing') AND ready_at IS NULL))
        AND (EXISTS (SELECT FROM search.chunkvector AS row
                WHERE row.tenant_id = document.tenant_id AND row.document_id = document.id)
            OR EXISTS (SELECT FROM retrieval_chunkterms AS row
                WHERE row.tenant_id = document.tenant_id AND row.document_id = document.id))
    ORDER BY id
"""
_STAGED = """
    SELECT id, state FROM documents_document AS document
    WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR id = %(only)s)
        AND state IN ('ready', 'failed', 'superseded')
        AND EXISTS (SELECT FROM retrieval_stagedchunk AS row
            WHERE row.tenant_id = document.tenant_id AND row.document_id = document.id)
    ORDER BY id
"""
_BAD_VECTORS = """
    SELECT document_id, count(*) FROM search.chunkvector AS vector
    JOIN retrieval_embeddingindex AS index
        ON index.tenant_id = vector.tenant_id AND index.id = vector.index_id
    WHERE vector.tenant_id = %(tenant)s AND index.active
        AND (%(only)s::uuid IS NULL OR document_id = %(only)s)
        AND (vector_dims(embedding) <> index.dimensions
            OR NOT l2_norm(embedding) BETWEEN 0.99 AND 1.01)
    GROUP BY document_id ORDER BY document_id
"""
# Documents said to be wholly in an index that are not: one row each. In the active index they
# count as unfindable instead, and are indexed again.
_MARKS = """
    SELECT mark.document_id, mark.index_id FROM retrieval_indexeddocument AS mark
    JOIN retrieval_embeddingindex AS index
        ON index.tenant_id = mark.tenant_id AND index.id = mark.index_id AND NOT index.active
    WHERE mark.tenant_id = %(tenant)s
        AND (%(only)s::uuid IS NULL OR mark.document_id = %(only)s)
        AND mark.chunk_count <> (SELECT count(*) FROM search.chunkvector AS vector
            WHERE vector.tenant_id = mark.tenant_id AND vector.document_id = mark.document_id
                AND vector.index_id = mark.index_id)
    ORDER BY mark.document_id, mark.index_id
"""
# BM25's statistics as they are and as they follow from its rows; one row a collection that differs.
_STATISTICS = """
    WITH due AS (
        SELECT collection_id, generation, count(*) AS chunks, sum(length) AS length
        FROM retrieval_chunkterms
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR collection_id = %(only)s)
        GROUP BY collection_id, generation
    ), kept AS (
        SELECT collection_id, generation, chunk_count, total_length
        FROM retrieval_collectionstatistics
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR collection_id = %(only)s)
    ), due_terms AS (
        SELECT collection_id, generation, lexeme::bigint AS term, count(*) AS chunks
        FROM retrieval_chunkterms, unnest(tsvector_to_array(terms)) AS lexeme
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR collection_id = %(only)s)
        GROUP BY collection_id, generation, lexeme::bigint
    ), kept_terms AS (
        SELECT collection_id, generation, term, chunk_count FROM retrieval_termfrequency
        WHERE tenant_id = %(tenant)s AND (%(only)s::uuid IS NULL OR collection_id = %(only)s)
    )
    SELECT collection_id, sum(wrong) FROM (
        SELECT collection_id, 1 AS wrong FROM due FULL JOIN kept USING (collection_id, generation)
        WHERE COALESCE(chunks, 0) <> COALESCE(chunk_count, 0)
            OR COALESCE(due.length, 0) <> COALESCE(total_length, 0)
        UNION ALL
        SELECT collection_id, 1 FROM due_terms 
            FULL JOIN kept_terms USING (collection_id, generation, term)
        WHERE chunks IS DISTINCT FROM chunk_count
    ) AS differences GROUP BY collection_id ORDER BY collection_id
"""
_RECOUNT = (
    """
    UPDATE retrieval_collectionstatistics AS kept SET (chunk_count, total_length) = (
        SELECT count(*), COALESCE(sum(length), 0) FROM retrieval_chunkterms AS row
        WHERE row.tenant_id = kept.tenant_id AND row.collection_id = kept.collection_id
            AND row.generation = kept.generation)
    WHERE tenant_id = %(tenant)s AND collection_id = %(only)s
    """,
    """
    INSERT INTO retrieval_collectionstatistics
        (tenant_id, collection_id, generation, chunk_count, total_length, weighted_with_average)
    SELECT tenant_id, collection_id, generation, count(*), sum(length), GREATEST(avg(length), 1)
    FROM retrieval_chunkterms WHERE tenant_id = %(tenant)s AND collection_id = %(only)s
    GROUP BY tenant_id, collection_id, generation
    ON CONFLICT (tenant_id, collection_id, generation) DO NOTHING
    """,
    "DELETE FROM retrieval_termfrequency WHERE tenant_id = %(tenant)s AND collection_id = %(only)s",
    """
    INSERT INTO retrieval_termfrequency (tenant_id, collection_id, generation, term, chunk_count)
    SELECT tenant_id, collection_id, generation, lexeme::bigint, count(*)
    FROM retrieval_chunkterms, unnest(tsvector_to_array(terms)) AS lexeme
    WHERE tenant_id = %(tenant)s AND collection_id = %(only)s
    GROUP BY tenant_id, collection_id, generation, lexeme::bigint
    """,
)


def unfindable_documents(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Ready documents that vector search or BM25 cannot find all of."""
    for document_id, chunks, no_vector, elsewhere, no_terms in _rows(_UNFINDABLE, tenant_id):
        repair = _index_again(_UNFINDABLE, tenant_id, document_id)
        if no_vector and no_vector == elsewhere and not no_terms:
            words = "Its vectors are of another embedding model than the one searched with."
            yield Finding("other_index", str(document_id), words, tenant_id)
            continue
        words = f"Of {chunks} passages, {no_vector} have no vector and {no_terms} no BM25 row."
        yield Finding("unfindable", str(document_id), words, tenant_id, repair)


def misplaced_rows(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Search rows of passages that are not the document's, or under another collection."""
    for document_id, count in _rows(_MISPLACED, tenant_id):
        yield Finding(
            "misplaced_rows",
            str(document_id),
            f"{count} search rows are not this document's, or are in another collection.",
            tenant_id,
            partial(_replace_rows, tenant_id, document_id),
        )


def rows_of_unfindable_documents(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Search rows of documents that failed, were superseded, or never became ready."""
    for document_id, state in _rows(_UNWANTED, tenant_id):
        words = f"The document is {state}, and is in the search tables."
        repair = partial(_remove_rows, tenant_id, document_id)
        yield Finding("needless_rows", str(document_id), words, tenant_id, repair)


def staged_rows_of_finished_documents(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """What was kept for a document that is not going to be indexed from it."""
    for document_id, state in _rows(_STAGED, tenant_id):
        words = f"The document is {state}, and rows are still staged for it."
        repair = partial(_remove_staged, tenant_id, document_id)
        yield Finding("staged_rows", str(document_id), words, tenant_id, repair)


def bad_vectors(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """With `deep`: vectors that are not of their index's dimensions, or not of unit length."""
    for document_id, count in _rows(_BAD_VECTORS, tenant_id) if options.deep else ():
        words = f"{count} vectors are not of their index's dimensions, or not of unit length."
        repair = _index_again(_BAD_VECTORS, tenant_id, document_id)
        yield Finding("bad_vectors", str(document_id), words, tenant_id, repair)


def false_marks(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """Documents that an index is said to have wholly, and has not."""
    for document_id, index_id in _rows(_MARKS, tenant_id):
        words = f"It is not wholly in the embedding index {index_id}, though it is said to be."
        repair = partial(_unmark, tenant_id, document_id)
        yield Finding("false_mark", str(document_id), words, tenant_id, repair)


def wrong_statistics(tenant_id: uuid.UUID, options: Options) -> Iterator[Finding]:
    """BM25 statistics that are not what a recount gives."""
    for collection_id, count in _rows(_STATISTICS, tenant_id):
        words = f"{count} of the collection's BM25 counts are not what a recount gives."
        repair = partial(_recount, tenant_id, collection_id)
        yield Finding("wrong_statistics", str(collection_id), words, tenant_id, repair)


CHECKS: tuple[Check, ...] = (
    misplaced_rows,
    rows_of_unfindable_documents,
    staged_rows_of_finished_documents,
    false_marks,
    wrong_statistics,
    unfindable_documents,
    bad_vectors,
)


@dataclass(frozen=True)
class Step:
    """One check of one tenant, or of all."""

    words: str
    findings: Callable[[], Iterator[Finding]]


def steps(options: Options, *, tenant: Tenant | None = None) -> Iterator[Step]:
    """All checks of one tenant; or of every one, and of what is left of tenants that are gone."""
    for each in [tenant] if tenant else Tenant.objects.order_by("slug").iterator():
        for check in (*documents.CHECKS, *CHECKS):
            words = f"{each.slug}: {check.__name__.replace('_', ' ')}"
            yield Step(words, partial(check, each.id, options))
    if tenant is None:
        yield Step("files of gone tenants", partial(documents.files_of_gone_tenants, options))


def check(options: Options, *, tenant: Tenant | None = None) -> Iterator[Finding]:
    """Every finding of `steps`."""
    for step in steps(options, tenant=tenant):
        yield from step.findings()


def _index_again(query: str, tenant_id: uuid.UUID, document_id: uuid.UUID) -> Callable[[], bool]:
    def still(document: Document) -> bool:
        return bool(_query(query, tenant_id, document.id))

    return partial(index_again, tenant_id, document_id, still)


def _replace_rows(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    """All of its rows go, right ones too: which are right shows only after it is indexed anew."""
    with locked(tenant_id, document_id) as document:
        if document and _query(_MISPLACED, tenant_id, document_id):
            rows.remove(tenant_id, [document_id])
    return index_again(
        tenant_id, document_id, lambda document: bool(_query(_UNFINDABLE, tenant_id, document.id))
    )


def _remove_rows(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    with locked(tenant_id, document_id) as document:
        if document and _query(_UNWANTED, tenant_id, document_id):
            rows.remove(tenant_id, [document_id])
    return True


def _remove_staged(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    finished = (DocumentState.READY, DocumentState.FAILED, DocumentState.SUPERSEDED)
    with locked(tenant_id, document_id) as document:
        if document and document.state in finished:
            StagedChunk.objects.filter(tenant_id=tenant_id, document_id=document_id).delete()
    return True


def _unmark(tenant_id: uuid.UUID, document_id: uuid.UUID) -> bool:
    """What is missing is then written by whatever keeps the index in step."""
    with locked(tenant_id, document_id):
        for _, index_id in _query(_MARKS, tenant_id, document_id):
            IndexedDocument.objects.filter(
                tenant_id=tenant_id, document_id=document_id, index_id=index_id
            ).delete()
    return True


def _recount(tenant_id: uuid.UUID, collection_id: uuid.UUID) -> bool:
    """Under the lock that keeps both indexing and deleting out of the collection."""
    with tenant_scope(tenant_id):
        lock_collection(tenant_id, collection_id)
        if _query(_STATISTICS, tenant_id, collection_id):
            for statement in _RECOUNT:
                with connection.cursor() as cursor:
                    cursor.execute(statement, {"tenant": tenant_id, "only": collection_id})
    return True


def _rows(query: str, tenant_id: uuid.UUID) -> list[tuple[Any, ...]]:
    with snapshot(tenant_id):
        return _query(query, tenant_id, None)


def _query(query: str, tenant_id: uuid.UUID, only: uuid.UUID | None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"tenant": tenant_id, "only": only})
        return list(cursor.fetchall())
