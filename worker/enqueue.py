"""Handing work to the workers, by name, once the data it is about is committed."""

from __future__ import annotations

import logging
from functools import partial
from uuid import UUID

from django.db import transaction
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from worker.celery import app

logger = logging.getLogger(__name__)


def enqueue(task_name: str, *, tenant_id: UUID, **arguments: str | int) -> None:
    """Send `task_name` after the open transaction commits; at once where there is none.

    A dead broker is logged and not raised: the row that the task is about is the job, and the
    sweeper sends it again.
    """
    kwargs = {"tenant_id": str(tenant_id), **arguments}
    transaction.on_commit(partial(_send, task_name, kwargs))


def wake(task_name: str) -> None:
    """Tell a worker, after the open transaction commits, that a table has work for `task_name`.

    The message says nothing else: which work it is, is chosen from the table.
    """
    transaction.on_commit(partial(_send, task_name, {}))


def queue_length(queue: str) -> int | None:
    """Messages waiting in `queue`; None when the broker cannot be asked."""
    try:
        with app.pool.acquire(block=True) as connection:
            connection.ensure_connection(max_retries=1, timeout=2)  # type: ignore[attr-defined]
            return int(connection.default_channel.client.llen(queue))  # type: ignore[attr-defined]
    except (OperationalError, RedisError, OSError) as exc:
        logger.warning("broker cannot be asked for its queue: %s", type(exc).__name__)
        return None


def _send(task_name: str, kwargs: dict[str, str | int]) -> None:
    try:
        app.send_task(task_name, kwargs=kwargs, retry=False)
    except (OperationalError, RedisError, OSError) as exc:
        logger.warning(
            "%s not sent, the broker does not answer (%s); the sweeper will send it",
            task_name,
            type(exc).__name__,
        )
