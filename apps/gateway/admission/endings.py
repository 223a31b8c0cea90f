"""Steps that are carried to their end although whoever asked for them has been cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from django.utils.translation import gettext

from apps.gateway.errors import GatewayError, StoreDown

T = TypeVar("T")
logger = logging.getLogger(__name__)
# The loop itself holds tasks only weakly.
_running: set[asyncio.Task[Any]] = set()


def start(step: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Begin a step that nobody's cancellation reaches."""
    task = asyncio.create_task(step)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


async def waited_for(task: asyncio.Task[T], within_s: float) -> bool:
    """Wait for a step; whether it has ended. It goes on if not, and if the waiter is cancelled."""
    done, _ = await asyncio.wait({task}, timeout=within_s)
    return bool(done)


async def taken(
    taking: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]], within_s: float
) -> T:
    """What `taking` takes. Undone where it comes too late or nobody waits for it any longer.

    Raises StoreDown after `within_s`, and whatever `taking` raises.
    """
    task = start(taking)
    try:
        if await waited_for(task, within_s):
            return task.result()
    except asyncio.CancelledError:
        await waited_for(start(_undone(task, undo)), within_s)
        raise
    start(_undone(task, undo))
    raise StoreDown(gettext("The store of limits did not answer in time. Try again in a moment."))


async def _undone(task: asyncio.Task[T], undo: Callable[[T], Awaitable[None]]) -> None:
    try:
        what = await task
    except GatewayError:
        return  # refused: nothing was taken
    await undo(what)


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if task.cancelled() or (exc := task.exception()) is None:
        return
    # Whoever waits is told; refusals and stores that are away are nobody's fault here.
    if not isinstance(exc, GatewayError):
        logger.error("a step of the admission ended in %s", type(exc).__name__)
