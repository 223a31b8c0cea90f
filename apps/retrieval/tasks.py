"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.retrieval.indexing import index_document
from apps.retrieval.weighing import weigh_collection
from worker.tasks import TenantTask


@shared_task(base=TenantTask, name="retrieval.index_document")
def index_document_task(*, tenant_id: UUID, document_id: str) -> None:
    index_document(tenant_id=tenant_id, document_id=UUID(document_id))


@shared_task(base=TenantTask, name="retrieval.weigh_collection")
def weigh_collection_task(*, tenant_id: UUID, collection_id: str) -> None:
    weigh_collection(tenant_id=tenant_id, collection_id=UUID(collection_id))
