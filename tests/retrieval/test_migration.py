"""Vectors of the release before, moved to where the application role may build indexes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from django.db import connection

from apps.retrieval.models import (
    ChunkVector,
    CollectionStatistics,
    EmbeddingIndex,
    IndexedDocument,
)
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.old_release import as_superuser, database_at, migrate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True, databases=["default", "owner"]),
]


@pytest.fixture
def _before() -> Iterator[None]:
    with database_at(("tenants", "0002_key_scope"), ("retrieval", "0004_staged_chunks")):
        yield


def insert(db: object, table: str, **values: object) -> None:
    places = ", ".join(["%s"] * len(values))
    db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", [*values.values()])  # type: ignore[attr-defined] # noqa: S608


@pytest.mark.usefixtures("_before")
def test_vectors_statistics_and_what_is_indexed_are_kept() -> None:
    tenant = Tenant.objects.create(slug="old", name="Old").id
    collection, document, chunk, index = (uuid.uuid4() for _ in range(4))
    owner = {"tenant_id": tenant, "document_id": document, "chunk_id": chunk}
    with as_superuser() as db:
        insert(
            db, "documents_collection", id=collection, tenant_id=tenant, name="Old",
            description="", open_to_all=True, created_at="now",
        )  # fmt: skip
        insert(
            db, "documents_document", id=document, tenant_id=tenant, collection_id=collection,
            path="a.txt", version=1, name="a.txt", kind="", size_bytes=1, sha256="x",
            storage_key="k", unlocked_key="", encoding="", ocr=False, state="ready",
            progress_done=0, progress_total=0, error_code="", error_message="", page_count=1,
            chunk_count=1, language="", created_at="now", updated_at="now",
        )  # fmt: skip
        insert(
            db, "documents_chunk", id=chunk, tenant_id=tenant, document_id=document, ordinal=0,
            text="words", heading_path="", char_start=0, char_end=5, page_first=1, page_last=1,
            token_count=1,
        )  # fmt: skip
        insert(
            db, "retrieval_embeddingindex", id=index, tenant_id=tenant, model_id="m",
            dimensions=3, query_prompt="", chunker_version=1, active=True, created_at="now",
        )  # fmt: skip
        insert(
            db, "retrieval_chunkvector", **owner, index_id=index, collection_id=collection,
            embedding="[1,0,0]",
        )  # fmt: skip
        insert(
            db, "retrieval_chunkterms", **owner, collection_id=collection, length=1,
            terms="'7'", weights="{7:1}/1000000000",
        )  # fmt: skip
    migrate()
    vector = ChunkVector.objects.get()
    assert (vector.chunk_id, vector.slot) == (chunk, 0)
    assert EmbeddingIndex.objects.get().generation == 0
    mark = IndexedDocument.objects.get()
    assert (mark.document_id, mark.index_id, mark.chunk_count) == (document, index, 1)
    statistics = CollectionStatistics.objects.get()
    assert (statistics.chunk_count, statistics.generation) == (1, 0)
    with connection.cursor() as cursor:  # the application role itself
        cursor.execute("CREATE INDEX mine ON search.chunkvector_0 (tenant_id) WHERE slot = 0")
    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute("DELETE FROM documents_document")
    assert not ChunkVector.objects.exists()
    assert not IndexedDocument.objects.exists()
    assert CollectionStatistics.objects.get().chunk_count == 0
