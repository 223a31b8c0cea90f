"""Jobs of this room, by the names others enqueue them under."""

from __future__ import annotations

from celery import shared_task

from apps.evals import live_alerts, running, scheduling
from apps.evals.answering.starting import ANSWER_NEXT
from apps.evals.answering.working import answer_next
from apps.evals.tuning import jobs as tuning
from apps.evals.tuning.working import tune_next
from worker.tasks import QuietTask


@shared_task(base=QuietTask, name=running.RUN_NEXT)
def run_next_task() -> None:
    running.run_next()


@shared_task(base=QuietTask, name=ANSWER_NEXT)
def answer_next_task() -> None:
    answer_next()


@shared_task(base=QuietTask, name="evals.sweep")
def sweep_task() -> None:
    scheduling.wake_for_runs()


@shared_task(base=QuietTask, name="evals.schedule")
def schedule_task() -> None:
    scheduling.start_due_runs()
    live_alerts.check_live()


@shared_task(base=QuietTask, name=tuning.TASK)
def tune_next_task() -> None:
    tune_next()
