"""Jobs of this room, by the names that the clock sends them under."""

from __future__ import annotations

from celery import shared_task

from apps.chat.services.deleting import purge_deleted
from apps.chat.streams.sweeping import sweep
from worker.tasks import QuietTask


@shared_task(base=QuietTask, name="chat.sweep")
def sweep_task() -> None:
    sweep()


@shared_task(base=QuietTask, name="chat.purge")
def purge_task() -> None:
    purge_deleted()
