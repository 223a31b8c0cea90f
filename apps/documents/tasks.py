"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from celery import shared_task

from apps.documents.api.idempotency import forget_expired
from apps.documents.ingestion import ingest_next
from apps.documents.sweeping import sweep
from apps.documents.syncing import sync_next
from worker.tasks import QuietTask


@shared_task(base=QuietTask, name="documents.ingest_next")
def ingest_next_task() -> None:
    ingest_next()


@shared_task(base=QuietTask, name="documents.sweep")
def sweep_task() -> None:
    sweep()
    forget_expired()


@shared_task(base=QuietTask, name="documents.sync_sources")
def sync_sources_task() -> None:
    sync_next()
