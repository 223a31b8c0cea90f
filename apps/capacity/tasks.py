"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down

from apps.capacity.loadtests import measuring, working
from worker.tasks import QuietTask


@shared_task(base=QuietTask, name=working.RUN_NEXT)
def run_next_task() -> None:
    working.run_next()


@shared_task(base=QuietTask, name="capacity.sweep")
def sweep_task() -> None:
    working.wake_for_tests()


@worker_shutting_down.connect
def let_go(**_: Any) -> None:
    """A point takes minutes, and a worker that is to end waits for its tasks: go on elsewhere."""
    measuring.closing.set()
