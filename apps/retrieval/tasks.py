"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from apps.retrieval import ann, builds, recall, slots
from apps.retrieval.indexing import index_next
from apps.retrieval.weighing import weigh_collection
from worker.enqueue import wake
from worker.tasks import QuietTask, TenantTask


@shared_task(base=QuietTask, name="retrieval.index_next")
def index_next_task() -> None:
    index_next()


@shared_task(base=TenantTask, name="retrieval.weigh_collection")
def weigh_collection_task(*, tenant_id: UUID, collection_id: str) -> None:
    weigh_collection(tenant_id=tenant_id, collection_id=UUID(collection_id))


@shared_task(base=QuietTask, name="retrieval.tend_ann_indexes")
def tend_ann_indexes_task() -> None:
    ann.tend()


@shared_task(base=QuietTask, name="retrieval.check_recall")
def check_recall_task() -> None:
    recall.check_due()


@shared_task(base=QuietTask, name="retrieval.tend_builds")
def tend_builds_task() -> None:
    if builds.tend_next():  # one slice a message: other work comes in between
        wake("retrieval.tend_builds")


@shared_task(base=QuietTask, name="retrieval.drop_unused_partitions")
def drop_unused_partitions_task() -> None:
    slots.drop_unused()
