"""Reading indexes and the text of hits. Text is read inside a tenant scope only."""

from __future__ import annotations

import uuid
from collections.abc import Collection as AbstractCollection

from apps.documents.models import Chunk, Document, DocumentState
from apps.retrieval.models import EmbeddingIndex


def active_index(tenant_id: uuid.UUID) -> EmbeddingIndex | None:
    """The index questions are searched in; None before the tenant's first document."""
    return EmbeddingIndex.objects.filter(tenant_id=tenant_id, active=True).first()


def document_languages(
    tenant_id: uuid.UUID, collection_ids: AbstractCollection[uuid.UUID]
) -> set[str]:
    """The languages that the collections' documents are in, as far as they are known.

    Needs the tenant's scope. Reads one short column of every document: milliseconds for thousands.
    """
    rows = Document.objects.filter(tenant_id=tenant_id, collection_id__in=collection_ids)
    return set(rows.exclude(language="").values_list("language", flat=True).distinct())


def searchable_chunks(
    tenant_id: uuid.UUID,
    chunk_ids: AbstractCollection[uuid.UUID],
    collection_ids: AbstractCollection[uuid.UUID],
) -> dict[uuid.UUID, str]:
    """Of `chunk_ids`, those of ready documents in the collections, with the document's language.

    Needs the tenant's scope: row-level security has the last word on every hit here.
    """
    rows = Chunk.objects.filter(
        tenant_id=tenant_id,
        id__in=chunk_ids,
        document__tenant_id=tenant_id,
        document__collection_id__in=collection_ids,
        document__state=DocumentState.READY,
    )
    return dict(rows.values_list("id", "document__language"))


def read_chunks(
    tenant_id: uuid.UUID, chunk_ids: AbstractCollection[uuid.UUID]
) -> dict[uuid.UUID, Chunk]:
    """Chunks with their documents, by id. Needs the tenant's scope."""
    rows = Chunk.objects.filter(tenant_id=tenant_id, id__in=chunk_ids)
    return {chunk.id: chunk for chunk in rows.select_related("document")}
