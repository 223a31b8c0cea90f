"""What a worker process starts and gives back: its clock, its database connections."""

from __future__ import annotations

from typing import Any

from celery.beat import EmbeddedService
from celery.signals import task_postrun, worker_ready, worker_shutdown
from django.db import close_old_connections, connections

from worker.celery import MAINTENANCE, app

_clocks: list[Any] = []


@worker_ready.connect
def start_clock(sender: Any, **_: Any) -> None:
    """Run the schedule as a thread of every worker that serves the maintenance queue.

    Several clocks do no harm: a sweep is idempotent and expires before the next. A process of its
    own (`worker -B`, `celery beat`) would cost 60 MiB and need a schedule file.
    """
    if MAINTENANCE not in sender.app.amqp.queues.consume_from:
        return
    # Named again: an embedded clock does not read `beat_scheduler`, and its own default keeps a
    # file in whatever directory the worker was started in.
    clock: Any = EmbeddedService(app, thread=True, scheduler_cls=app.conf.beat_scheduler)
    clock.start()
    _clocks.append(clock)


@worker_shutdown.connect
def stop_clock(**_: Any) -> None:
    while _clocks:
        _clocks.pop().stop()
    close_pools()


@task_postrun.connect
def give_connection_back(**_: Any) -> None:
    """Return this thread's connection to the pool between tasks."""
    if not app.conf.task_always_eager:
        close_old_connections()


def close_pools() -> None:
    """Close the pools' own threads, so that the process can end."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if getattr(connection, "pool", None) is not None:
            connection.close_pool()  # type: ignore[attr-defined]
