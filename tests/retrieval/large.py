"""Tenants whose vectors are made up: thousands of rows without an encoder."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from django.db import connection
from pgvector import HalfVector

from apps.documents.models import Chunk, Collection, Document, DocumentState
from apps.retrieval import rows
from apps.retrieval.models import CollectionStatistics, EmbeddingIndex
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope

DIMENSIONS = 32
Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Large:
    """A tenant's vectors, in the order of `chunk_ids`."""

    tenant: Tenant
    collection: Collection
    document: Document
    index: EmbeddingIndex
    chunk_ids: list[uuid.UUID]
    matrix: Matrix

    def nearest(self, question: Matrix, k: int) -> list[uuid.UUID]:
        order = np.argsort(-(self.matrix @ question), kind="stable")[:k]
        return [self.chunk_ids[at] for at in order]


def clustered(count: int, seed: int) -> Matrix:
    """Unit vectors around a few centres, as a halfvec holds them."""
    chance = np.random.default_rng(seed)
    centres = chance.standard_normal((8, DIMENSIONS))
    points = centres[chance.integers(0, 8, count)] + 0.6 * chance.standard_normal(
        (count, DIMENSIONS)
    )
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    return unit.astype(np.float16).astype(np.float32)


def make_large(collection: Collection, count: int, *, seed: int = 1) -> Large:
    """One ready document of `count` chunks, with vectors in the tenant's active index."""
    matrix = clustered(count, seed)
    index, _ = EmbeddingIndex.objects.get_or_create(
        tenant_id=collection.tenant_id,
        model_id="clustered",
        dimensions=DIMENSIONS,
        chunker_version=1,
        active=True,
    )
    with tenant_scope(collection.tenant_id):
        document = Document.objects.create(
            tenant_id=collection.tenant_id,
            collection=collection,
            path=f"{uuid.uuid4()}/large.txt",
            name="large.txt",
            size_bytes=1,
            sha256=uuid.uuid4().hex,
            storage_key="none",
            state=DocumentState.READY,
            chunk_count=count,
        )
        chunks = Chunk.objects.bulk_create(
            Chunk(
                tenant_id=collection.tenant_id,
                document=document,
                ordinal=ordinal,
                text="-",
                char_start=ordinal,
                char_end=ordinal + 1,
                page_first=1,
                page_last=1,
                token_count=1,
            )
            for ordinal in range(count)
        )
        ids = [chunk.id for chunk in chunks]
        owner = (collection.tenant_id, index.id, collection.id, document.id)
        rows.copy(
            "COPY search.chunkvector "
            "(tenant_id, index_id, collection_id, document_id, chunk_id, embedding) FROM STDIN",
            (
                (*owner, chunk, HalfVector(row).to_text())
                for chunk, row in zip(ids, matrix, strict=True)
            ),
        )
        statistics, _ = CollectionStatistics.objects.get_or_create(
            tenant_id=collection.tenant_id, collection=collection, generation=index.generation
        )
        statistics.chunk_count += count
        statistics.save(update_fields=["chunk_count"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE search.chunkvector")
    return Large(collection.tenant, collection, document, index, ids, matrix)


def hnsw_indexes() -> dict[str, bool]:
    """The HNSW indexes in the database, and whether each is valid."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
            "WHERE relnamespace = 'search'::regnamespace AND relname ~ '^ann_[0-9]+$'"
        )
        return dict(cursor.fetchall())
