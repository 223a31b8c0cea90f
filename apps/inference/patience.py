"""One timer for the many waits of a stream.

`asyncio.timeout` makes a timer and cancels it again at each wait: two of them took an eighth of
what a token cost on its way through the gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Self, TypeVar

T = TypeVar("T")


class Patience:
    """Bounds waits, one at a time.

    with Patience() as patience:
        ... await patience.wait(anext(events), 60.0)
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self, step: Awaitable[T], seconds: float) -> T:
        """What `step` gives; raises TimeoutError where that takes longer."""
        return await self.wait_until(step, self._loop.time() + seconds)

    async def wait_until(self, step: Awaitable[T], when: float) -> T:
        """The same, with a time of the loop's clock."""
        self._until = when
        if self._timer is None or self._timer.when() > when:
            self._arm()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("waits inside a task")
        cancelling = task.cancelling()
        self._waiting, self._is_over = task, False
        try:
            return await step
        except asyncio.CancelledError as exc:
            # As asyncio.timeout tells its own cancellation from others'.
            if self._is_over and task.cancelling() - 1 <= cancelling:
                raise TimeoutError from exc
            raise
        finally:
            self._waiting = None
            if self._is_over:
                task.uncancel()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._until, self._look)

    def _look(self) -> None:
        """Time is over, unless a later wait has moved it."""
        self._timer = None
        if self._loop.time() < self._until:
            self._arm()
        elif self._waiting is not None:
            self._is_over = True
            self._waiting.cancel()
