"""The Celery application: `celery -A worker.celery worker`.

One process, a pool of threads. Whatever may hang or eat memory runs in a sandbox process of its
own (`worker.sandbox`) or behind an HTTP timeout, so Celery's process-killing time limits, which
are prefork's, are not needed; and there is no pool of database connections to carry over a fork.
The clock runs as a thread of the worker too (`worker.lifecycle`).
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")

from django.conf import settings

INGEST, INDEX, MAINTENANCE = "ingest", "index", "maintenance"
# Runs, curves and indexes built beside others: a slice of one thread's time each.
EVALUATION = "evaluation"
# Twice within a lease: what a killed worker held is found soon after that has run out.
SWEEP_EVERY_S = min(30.0, settings.JOB_LEASE_S / 2)
RESERVATIONS_EVERY_S = 30.0  # half of a reservation's lease
ALERT_EVERY_S = 30.0  # limits that are being met
ROLL_UP_EVERY_S = 60.0  # pages read what has come since straight from the ledger
PROBE_EVERY_S = 5.0  # upstreams: one that has come back is tried again within 10 s
SYNC_EVERY_S = 60.0
BUILD_EVERY_S = 5.0  # a throttled build works for as long, and one that gave way goes on
TEND_EVERY_S = 60.0  # indexes of large tenants, and samples of recall
TUNE_EVERY_S = 60.0  # what waited for documents to be ingested, or was lost
CHAT_SWEEP_EVERY_S = 15.0  # answers whose process died; their leases are 10 s
CHAT_PURGE_EVERY_S = 60.0  # conversations that were deleted 5 minutes ago
SCHEDULE_EVERY_S = 300.0  # evaluations by the clock, and answers that have expired
# Far above the longest task (a parse is bounded by PARSE_TIMEOUT_S): a message is delivered again
# only when its worker is gone. Documents are found sooner than that by the sweeper.
VISIBILITY_TIMEOUT_S = 3600


def broker_url(redis_url: str) -> str:
    """`redis_url` as Kombu spells it: a UNIX socket's scheme is `redis+socket`."""
    scheme, _, rest = (redis_url or "redis://127.0.0.1:1/0").partition("://")
    return f"redis+socket://{rest}" if scheme == "unix" else f"{scheme}://{rest}"


def _every(task: str, seconds: float) -> dict[str, Any]:
    """An entry of the clock. One that waited for longer than that is overtaken by the next."""
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


app = Celery("ragsite")
app.conf.update(
    broker_url=broker_url(settings.REDIS_URL),
    broker_connection_retry=True,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        "socket_connect_timeout": 2,
        # A broker that accepts and never answers; above the second that a worker's BRPOP waits.
        "socket_timeout": 5,
        # Sending must not hold up a request while the broker is away.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0.1,
        "global_keyprefix": "ragsite:",
    },
    visibility_timeout=VISIBILITY_TIMEOUT_S,
    # An exchange each: on a shared one, every queue would get every message.
    task_queues=[
        Queue(name, Exchange(name), routing_key=name)
        for name in (INGEST, INDEX, MAINTENANCE, EVALUATION)
    ],
    task_default_queue=INGEST,
    imports=["worker.lifecycle"],
    task_routes={
        "documents.sweep": {"queue": MAINTENANCE},
        "documents.sync_*": {"queue": MAINTENANCE},
        "documents.*": {"queue": INGEST},
        "retrieval.tend_ann_indexes": {"queue": MAINTENANCE},
        "retrieval.check_recall": {"queue": MAINTENANCE},
        "retrieval.tend_builds": {"queue": EVALUATION},
        "retrieval.drop_unused_partitions": {"queue": MAINTENANCE},
        "retrieval.*": {"queue": INDEX},
        "evals.sweep": {"queue": MAINTENANCE},
        "evals.schedule": {"queue": MAINTENANCE},
        "evals.*": {"queue": EVALUATION},
        "capacity.sweep": {"queue": MAINTENANCE},
        "capacity.*": {"queue": EVALUATION},
        "gateway.*": {"queue": MAINTENANCE},
        "chat.*": {"queue": MAINTENANCE},
    },
    task_serializer="json",
    accept_content=["json"],
    task_acks_late=True,
    task_ignore_result=True,
    task_publish_retry=False,
    worker_prefetch_multiplier=1,
    worker_pool="threads",
    worker_concurrency=settings.WORKER_CONCURRENCY,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    beat_scheduler="celery.beat:Scheduler",
    beat_schedule={
        task: _every(task, seconds)
        for task, seconds in (
            ("documents.sweep", SWEEP_EVERY_S),
            ("documents.sync_sources", SYNC_EVERY_S),
            ("evals.sweep", SWEEP_EVERY_S),
            ("capacity.sweep", SWEEP_EVERY_S),
            ("chat.purge", CHAT_PURGE_EVERY_S),
            ("chat.sweep", CHAT_SWEEP_EVERY_S),
            ("gateway.alert", ALERT_EVERY_S),
            ("gateway.probe", PROBE_EVERY_S),
            ("gateway.sweep", RESERVATIONS_EVERY_S),
            ("gateway.roll_up", ROLL_UP_EVERY_S),
            ("gateway.sweep_cache", SCHEDULE_EVERY_S),
            ("evals.tune_next", TUNE_EVERY_S),
            ("evals.schedule", SCHEDULE_EVERY_S),
            ("retrieval.tend_ann_indexes", TEND_EVERY_S),
            ("retrieval.check_recall", TEND_EVERY_S),
            ("retrieval.tend_builds", BUILD_EVERY_S),
            ("retrieval.drop_unused_partitions", SCHEDULE_EVERY_S),
        )
    },
    timezone="UTC",
    task_cls="worker.tasks:QuietTask",
)
app.autodiscover_tasks()
