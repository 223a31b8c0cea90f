"""Vector search. Vectors are of unit length: the inner product is the cosine.

The table has no policy and its type no dimension: every statement names the tenant, the index and
the collections, and casts to the index's dimension.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db import connection
from pgvector import HalfVector

from apps.inference.types import Vectors
from apps.retrieval.models import EmbeddingIndex


@dataclass(frozen=True)
class SearchPlan:
    """How one tenant's vectors are searched."""

    kind: Literal["exact"]


def plan(index: EmbeddingIndex) -> SearchPlan:
    """The plan for `index`: exact through the btree on tenant, index and collection.

    Measured at 384 dimensions' double: 1.2 ms over 2,000 chunks, 5 ms over 10,000, 19 ms over
    28,000, and nothing is missed. The one place to choose otherwise for large tenants.
    """
    return SearchPlan("exact")


def search(
    *,
    index: EmbeddingIndex,
    collection_ids: Sequence[uuid.UUID],
    question: Vectors,
    limit: int,
    document_ids: Sequence[uuid.UUID] | None = None,
) -> dict[uuid.UUID, float]:
    """Cosines of the `limit` nearest chunks, nearest first. `question` has shape (dimensions,).

    With `document_ids`, of those documents only.
    """
    dimensions = int(index.dimensions)
    narrowed, only = (
        ("", [])
        if document_ids is None
        else (
            "AND document_id = ANY(%s)",
            [list(document_ids)],
        )
    )
    # A CTE of its own, not joined to anything: the planner then keeps ORDER BY and LIMIT together.
    return _scores(
        f"""
        WITH nearest AS MATERIALIZED (
            SELECT chunk_id,
                embedding::halfvec({dimensions}) <#> %s::halfvec({dimensions}) AS distance
            FROM search.chunkvector
            WHERE tenant_id = %s AND index_id = %s AND collection_id = ANY(%s) {narrowed}
            ORDER BY distance LIMIT %s
        )
        SELECT chunk_id, -distance FROM nearest ORDER BY distance, chunk_id
        """,  # noqa: S608 - an integer and words of ours
        [_text(question), index.tenant_id, index.id, list(collection_ids), *only, limit],
    )


def score(
    *, index: EmbeddingIndex, chunk_ids: Sequence[uuid.UUID], question: Vectors
) -> dict[uuid.UUID, float]:
    """Cosines of given chunks, for those that have a vector in `index`."""
    if not chunk_ids:
        return {}
    dimensions = int(index.dimensions)
    return _scores(
        f"""
        SELECT chunk_id, -(embedding::halfvec({dimensions}) <#> %s::halfvec({dimensions}))
        FROM search.chunkvector
        WHERE tenant_id = %s AND index_id = %s AND chunk_id = ANY(%s)
        """,  # noqa: S608 - an integer of ours
        [_text(question), index.tenant_id, index.id, list(chunk_ids)],
    )


def _scores(query: str, parameters: list[Any]) -> dict[uuid.UUID, float]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return dict(cursor.fetchall())


def _text(vector: Vectors) -> str:
    return str(HalfVector(vector).to_text())
