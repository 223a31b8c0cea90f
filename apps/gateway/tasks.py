"""Jobs of this room, by the names that the clock sends them under."""

from __future__ import annotations

from celery import shared_task

from apps.gateway.admission import sweeping
from apps.gateway.alerting import sending, thresholds
from apps.gateway.caching import sweeping as cache_sweeping
from apps.gateway.calling import probing
from apps.gateway.ledger import rollups
from worker.tasks import QuietTask


@shared_task(base=QuietTask, name="gateway.sweep")
def sweep_task() -> None:
    sweeping.sweep()


@shared_task(base=QuietTask, name="gateway.roll_up")
def roll_up_task() -> None:
    rollups.roll_up()


@shared_task(base=QuietTask, name="gateway.sweep_cache")
def sweep_cache_task() -> None:
    cache_sweeping.sweep()


@shared_task(base=QuietTask, name="gateway.alert")
def alert_task() -> None:
    thresholds.note_thresholds()
    sending.tell_due()


@shared_task(base=QuietTask, name="gateway.probe")
def probe_task() -> None:
    probing.look_at_all()
