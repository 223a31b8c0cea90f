"""Ending loops that wait for Redis."""

from __future__ import annotations

import asyncio


def is_cancelled() -> bool:
    """Whether the running task was cancelled, even if what it awaited has swallowed that.

    `asyncio.wait_for`, which the Redis client waits with, does so until Python 3.12 where its work
    is done at the same moment.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
