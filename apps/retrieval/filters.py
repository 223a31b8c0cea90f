"""Narrowing a search: from what a reader asks for to the documents that are searched.

Both legs search exactly these documents, in the same statement that ranks: nothing is filtered
away afterwards, so no hit is lost to a filter.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, time

from apps.documents.selectors import searchable_documents
from apps.retrieval.options import SearchFilter


@dataclass(frozen=True)
class Narrowed:
    """The documents that are searched; None: all of the collections'."""

    document_ids: Sequence[uuid.UUID] | None = None
    chunk_count: int | None = None  # of those documents together


def resolve(
    *, tenant_id: uuid.UUID, collection_ids: Sequence[uuid.UUID], narrowed: SearchFilter
) -> Narrowed:
    """The ready documents of the collections that satisfy every part. Needs the tenant's scope."""
    if not narrowed.narrows:
        return Narrowed()
    rows = searchable_documents(tenant_id, collection_ids)
    if narrowed.document_ids is not None:
        rows = rows.filter(id__in=narrowed.document_ids)
    if narrowed.kinds:
        rows = rows.filter(kind__in=_clean(narrowed.kinds))
    if narrowed.tags:
        rows = rows.filter(tags__overlap=[tag.casefold() for tag in _clean(narrowed.tags)])
    if narrowed.added_from is not None:
        rows = rows.filter(created_at__gte=datetime.combine(narrowed.added_from, time.min, UTC))
    if narrowed.added_to is not None:
        rows = rows.filter(created_at__lte=datetime.combine(narrowed.added_to, time.max, UTC))
    found = list(rows.values_list("id", "chunk_count"))
    return Narrowed([document for document, _ in found], sum(chunks for _, chunks in found))


def _clean(values: Iterable[str]) -> AbstractSet[str]:
    """PostgreSQL refuses NUL in a text, and no document has one in its kind or tags."""
    return {value for value in values if "\0" not in value}
