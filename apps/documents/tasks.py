"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.documents.ingestion import ingest_document
from apps.documents.sweeping import sweep
from worker.tasks import QuietTask, TenantTask


@shared_task(base=TenantTask, name="documents.ingest_document")
def ingest_document_task(*, tenant_id: UUID, document_id: str) -> None:
    ingest_document(tenant_id=tenant_id, document_id=UUID(document_id))


@shared_task(base=QuietTask, name="documents.sweep")
def sweep_task() -> None:
    sweep()
