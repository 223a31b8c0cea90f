"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.retrieval.indexing import index_next
from apps.retrieval.weighing import weigh_collection
from worker.tasks import QuietTask, TenantTask


@shared_task(base=QuietTask, name="retrieval.index_next")
def index_next_task() -> None:
    index_next()


@shared_task(base=TenantTask, name="retrieval.weigh_collection")
def weigh_collection_task(*, tenant_id: UUID, collection_id: str) -> None:
    weigh_collection(tenant_id=tenant_id, collection_id=UUID(collection_id))
