"""Vector search. Vectors are of unit length: the inner product is the cosine.

The table has no policy and its type no dimension: every statement names the tenant, the index, its
partition and the collections, and casts to the index's dimension.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from apps.inference.types import Vectors
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.plans import SearchPlan

# An HNSW scan that has found too few rows of a filter goes on until it has visited so many; what
# it keeps meanwhile may take this multiple of work_mem.
MAX_SCAN_TUPLES = 40_000
SCAN_MEMORY = 4

# Without sorts, PostgreSQL has no way to the nearest rows but the marked index.
_SETTINGS = """
    SELECT set_config('hnsw.ef_search', %s, true),
        set_config('hnsw.iterative_scan', 'relaxed_order', true),
        set_config('hnsw.max_scan_tuples', %s, true),
        set_config('hnsw.scan_mem_multiplier', %s, true),
        set_config('enable_sort', 'off', true)
"""
_SETTINGS_BACK = "SELECT set_config('enable_sort', 'on', true)"


@dataclass(frozen=True)
class Statement:
    """What is sent to PostgreSQL."""

    sql: str
    parameters: list[Any]


def search(
    *,
    index: EmbeddingIndex,
    collection_ids: Sequence[uuid.UUID],
    question: Vectors,
    limit: int,
    document_ids: Sequence[uuid.UUID] | None = None,
    plan: SearchPlan | None = None,
) -> dict[uuid.UUID, float]:
    """Cosines of the `limit` nearest chunks, nearest first. `question` has shape (dimensions,).

    With `document_ids`, of those documents only. Nothing is missed without a plan or with an exact
    one; an HNSW plan needs an open transaction.
    """
    first, *rest = statements(
        index=index,
        collection_ids=collection_ids,
        question=question,
        limit=limit,
        document_ids=document_ids,
        plan=plan,
    )
    if rest and not connection.in_atomic_block:
        raise RuntimeError(
            "A search with an HNSW plan needs a transaction: its settings last as long."
        )
    found: list[tuple[uuid.UUID, float]] = []
    with connection.cursor() as cursor:
        cursor.execute(first.sql, first.parameters)
        if not rest:
            found = cursor.fetchall()
        else:
            query, back = rest
            cursor.execute(query.sql, query.parameters)
            found = cursor.fetchall()
            cursor.execute(back.sql, back.parameters)
    # An HNSW scan's order is relaxed.
    return {chunk: -distance for chunk, distance in sorted(found, key=lambda row: row[::-1])}


def statements(
    *,
    index: EmbeddingIndex,
    collection_ids: Sequence[uuid.UUID],
    question: Vectors,
    limit: int,
    document_ids: Sequence[uuid.UUID] | None = None,
    plan: SearchPlan | None = None,
) -> list[Statement]:
    """What a search sends: one query; with an HNSW plan, settings before it and after it."""
    where = Statement(
        "tenant_id = %s AND index_id = %s AND slot = %s AND collection_id = ANY(%s)",
        [index.tenant_id, index.id, index.slot, list(collection_ids)],
    )
    if document_ids is not None:
        where = Statement(
            f"{where.sql} AND document_id = ANY(%s)", [*where.parameters, list(document_ids)]
        )
    if plan is None or plan.kind == "exact":
        return [_exact(index, where, question, limit)]
    scan = [str(plan.ef_search), str(MAX_SCAN_TUPLES), str(SCAN_MEMORY)]
    return [
        Statement(_SETTINGS, scan),
        (_by_bits if plan.storage == "bit" else _by_halves)(index, where, question, limit, plan),
        Statement(_SETTINGS_BACK, []),
    ]


def mark_of(ann_id: int) -> str:
    """True of every row, and in the predicate of one HNSW index alone."""
    return f"id <> {-int(ann_id)}"


def halves_of(index: EmbeddingIndex) -> str:
    """The expression that an HNSW index over halves is over."""
    return f"(embedding::halfvec({int(index.dimensions)}))"


def bits_of(index: EmbeddingIndex) -> str:
    """The expression that an HNSW index over signs is over."""
    return f"(binary_quantize(embedding)::bit({int(index.dimensions)}))"


def score(
    *, index: EmbeddingIndex, chunk_ids: Sequence[uuid.UUID], question: Vectors
) -> dict[uuid.UUID, float]:
    """Cosines of given chunks, for those that have a vector in `index`."""
    if not chunk_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT chunk_id, -({halves_of(index)} <#> {_halfvec(index)})
            FROM search.chunkvector
            WHERE tenant_id = %s AND index_id = %s AND slot = %s AND chunk_id = ANY(%s)
            """,  # noqa: S608 - expressions of ours
            [_text(question), index.tenant_id, index.id, index.slot, list(chunk_ids)],
        )
        return dict(cursor.fetchall())


def _exact(index: EmbeddingIndex, where: Statement, question: Vectors, limit: int) -> Statement:
    """`+ 0`: no HNSW index is in this order, whatever its predicate."""
    return Statement(
        f"""
        SELECT chunk_id, ({halves_of(index)} <#> {_halfvec(index)}) + 0 AS distance
        FROM search.chunkvector WHERE {where.sql} ORDER BY distance, chunk_id LIMIT %s
        """,  # noqa: S608 - expressions of ours
        [_text(question), *where.parameters, limit],
    )


def _by_halves(
    index: EmbeddingIndex, where: Statement, question: Vectors, limit: int, plan: SearchPlan
) -> Statement:
    return Statement(
        f"""
        SELECT chunk_id, {halves_of(index)} <#> {_halfvec(index)} AS distance
        FROM search.chunkvector WHERE {where.sql} AND {mark_of(plan.ann_id or 0)}
        ORDER BY distance LIMIT %s
        """,  # noqa: S608 - expressions of ours
        [_text(question), *where.parameters, limit],
    )


def _by_bits(
    index: EmbeddingIndex, where: Statement, question: Vectors, limit: int, plan: SearchPlan
) -> Statement:
    """The `ef_search` nearest by their signs, the best of them by their cosines."""
    text = _text(question)
    return Statement(
        f"""
        WITH near AS MATERIALIZED (
            SELECT chunk_id, embedding FROM search.chunkvector
            WHERE {where.sql} AND {mark_of(plan.ann_id or 0)}
            ORDER BY {bits_of(index)} <~> binary_quantize({_halfvec(index)})
            LIMIT %s
        ), scored AS (
            SELECT chunk_id, {halves_of(index)} <#> {_halfvec(index)} AS distance FROM near
        )
        SELECT chunk_id, distance FROM scored ORDER BY distance, chunk_id LIMIT %s
        """,  # noqa: S608 - expressions of ours
        [*where.parameters, text, plan.ef_search, text, limit],
    )


def _halfvec(index: EmbeddingIndex) -> str:
    return f"%s::halfvec({int(index.dimensions)})"


def _text(vector: Vectors) -> str:
    """pgvector's text form; five digits are more than a half has."""
    halves = np.asarray(vector, np.float16).tolist()
    return f"[{','.join(['%.5g'] * len(halves))}]" % tuple(halves)
