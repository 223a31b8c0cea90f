"""What the release before left in the database, taken over by the migration to jobs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.documents import jobs
from apps.documents.models import Collection, Document, DocumentUse, Job, Stage
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.old_release import as_superuser, database_at, migrate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True, databases=["default", "owner"]),
]

COLUMNS = (
    "id, tenant_id, collection_id, name, kind, size_bytes, sha256, storage_key, state, attempt, "
    "lease_expires_at, progress_done, progress_total, error_code, error_message, page_count, "
    "chunk_count, language, created_at, updated_at"
)


@pytest.fixture
def _before() -> Iterator[None]:
    before = (("tenants", "0001_initial"), ("documents", "0002_locks"))
    with database_at(*before):
        yield


@pytest.mark.usefixtures("_before")
def test_documents_of_the_release_before_keep_their_state_and_get_paths_and_jobs() -> None:
    tenant = Tenant.objects.create(slug="old", name="Old").id
    collection = uuid.uuid4()
    rows = [
        ("a.txt", "ready"), ("a.txt", "ready"), ("a.txt", "failed"), ("a.txt (2)", "ready"),
        ("b.txt", "received"), ("c.txt", "parsing"), ("d.txt", "chunking"), ("e.txt", "indexing"),
    ]  # fmt: skip
    with as_superuser() as db:
        db.execute(
            "INSERT INTO documents_collection "
            "(id, tenant_id, name, description, open_to_all, created_at) "
            "VALUES (%s, %s, 'Old', '', true, now())",
            [collection, tenant],
        )
        for age, (name, state) in enumerate(rows):
            at = timezone.now() - timedelta(hours=100 - age)
            values = [
                uuid.uuid4(), tenant, collection, name, "", 1, uuid.uuid4().hex, "key", state, 2,
                at, 0, 0, "", "", 0, 0, "", at, at,
            ]  # fmt: skip
            places = ", ".join(["%s"] * len(values))
            db.execute(f"INSERT INTO documents_document ({COLUMNS}) VALUES ({places})", values)  # type: ignore[arg-type] # noqa: S608
    migrate()
    with tenant_scope(tenant):
        documents = list(Document.objects.order_by("created_at"))
    paths = [document.path for document in documents]
    assert len(set(paths)) == len(paths)
    assert paths[0] == "a.txt"
    assert {document.version for document in documents} == {1}
    assert [document.state for document in documents] == [
        "ready", "ready", "failed", "ready", "received", "parsing", "parsing", "indexing",
    ]  # fmt: skip
    kept = Job.objects.filter(tenant_id=tenant).order_by("turn")
    assert [job.stage for job in kept] == ["ingest", "ingest", "ingest", "index"]
    assert [job.document_id for job in kept] == [document.id for document in documents[4:]]
    claim = jobs.take(Stage.INGEST)
    assert claim is not None
    assert claim.document_id == documents[4].id
    with tenant_scope(tenant):
        assert Collection.objects.count() == 1
    use = DocumentUse.objects.get()
    assert (use.tenant_id, use.documents, use.bytes) == (tenant, len(rows), len(rows))
