"""Tenants of the search benchmark: thousands of rows, each tenant's passages about something."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.documents.models import Collection
from apps.retrieval import rows
from apps.retrieval.models import EmbeddingIndex
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.bench.search_material import Halves

CHUNKS_A_DOCUMENT = 100
ROUNDS = 6  # of k-means
Places = npt.NDArray[np.int64]


@dataclass
class Loaded:
    """A tenant, and which rows of the matrix its chunks are, in the order they were loaded."""

    tenant: Tenant
    collection: Collection
    index: EmbeddingIndex
    places: list[int] = field(default_factory=list)
    chunk_ids: list[uuid.UUID] = field(default_factory=list)
    document_ids: list[uuid.UUID] = field(default_factory=list)


def by_topic(matrix: Halves, places: Places, topics: int) -> Places:
    """`places` in the order of their topics: spherical k-means on the vectors there."""
    vectors = matrix[places].astype(np.float32)
    chance = np.random.default_rng(1)
    centres = vectors[chance.choice(len(vectors), min(topics, len(vectors)), replace=False)]
    for _ in range(ROUNDS):
        nearest = _nearest(vectors, centres)
        for topic in range(len(centres)):
            members = vectors[nearest == topic]
            if len(members):
                total = members.sum(axis=0)
                centres[topic] = total / np.linalg.norm(total)
    return places[np.argsort(_nearest(vectors, centres), kind="stable")]


def _nearest(vectors: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]) -> Places:
    parts = [part @ centres.T for part in np.array_split(vectors, max(1, len(vectors) // 20_000))]
    return np.concatenate([part.argmax(axis=1) for part in parts])


def make_tenant(name: str, dimensions: int) -> Loaded:
    tenant = Tenant.objects.create(slug=name, name=name)
    with tenant_scope(tenant.id):
        collection = Collection.objects.create(tenant=tenant, name="All")
    index = EmbeddingIndex.objects.create(
        tenant=tenant, model_id="bench", dimensions=dimensions, chunker_version=1, active=True
    )
    return Loaded(tenant, collection, index)


def load(loaded: Loaded, matrix: Halves, places: Sequence[int]) -> None:
    """Add the chunks at `places` of the matrix: documents of a hundred chunks."""
    counts = [
        min(CHUNKS_A_DOCUMENT, len(places) - first)
        for first in range(0, len(places), CHUNKS_A_DOCUMENT)
    ]
    documents = [uuid.uuid4() for _ in counts]
    chunks = [uuid.uuid4() for _ in places]
    owner = [documents[at // CHUNKS_A_DOCUMENT] for at in range(len(places))]
    tenant, collection = loaded.tenant.id, loaded.collection.id
    with tenant_scope(tenant):
        with connection.cursor() as cursor:  # COPY knows no row-level security
            cursor.execute(_DOCUMENTS, [tenant, collection, documents, counts])
            cursor.execute(_CHUNKS, [tenant, CHUNKS_A_DOCUMENT, chunks, owner])
        rows.copy(
            _VECTORS,
            (
                (tenant, loaded.index.id, collection, document, chunk, text_of(matrix[place]))
                for chunk, document, place in zip(chunks, owner, places, strict=True)
            ),
        )
        with connection.cursor() as cursor:
            cursor.execute(_STATISTICS, [tenant, collection, len(places)])
    loaded.places += places
    loaded.chunk_ids += chunks
    loaded.document_ids += documents


def text_of(vector: npt.NDArray[np.float16]) -> str:
    return f"[{','.join(['%.5g'] * len(vector))}]" % tuple(vector.tolist())


def analyse() -> None:
    with connection.cursor() as cursor:
        for table in ("search.chunkvector", "documents_chunk", "documents_document"):
            cursor.execute(f"ANALYZE {table}")


_DOCUMENTS = """
    INSERT INTO documents_document (id, tenant_id, collection_id, path, version, name, size_bytes,
        sha256, storage_key, state, chunk_count, page_count, kind, unlocked_key, encoding, ocr,
        progress_done, progress_total, error_code, error_message, language, tags, created_at,
        updated_at)
    SELECT id, %s, %s, id, 1, id, 1, replace(id::text, '-', ''), 'none', 'ready', chunks, 1,
        'text/plain', '', '', false, 0, 0, '', '', 'en', '{}', now(), now()
    FROM unnest(%s::uuid[], %s::int[]) AS added (id, chunks)
"""
_CHUNKS = """
    INSERT INTO documents_chunk (id, tenant_id, document_id, ordinal, text, heading_path,
        char_start, char_end, page_first, page_last, token_count)
    SELECT id, %s, document, (nth - 1) %% %s, '-', '', nth, nth + 1, 1, 1, 1
    FROM unnest(%s::uuid[], %s::uuid[]) WITH ORDINALITY AS added (id, document, nth)
"""
_VECTORS = """
    COPY search.chunkvector (tenant_id, index_id, collection_id, document_id, chunk_id, embedding)
    FROM STDIN
"""
_STATISTICS = """
    INSERT INTO retrieval_collectionstatistics
        (tenant_id, collection_id, generation, chunk_count, total_length, weighted_with_average)
    VALUES (%s, %s, 0, %s, 0, 0)
    ON CONFLICT (tenant_id, collection_id, generation) DO UPDATE SET
        chunk_count = retrieval_collectionstatistics.chunk_count + EXCLUDED.chunk_count
"""
