"""One of a thing for each event loop, closed when the loop is.

Connections belong to the loop that opened them. Loops are short-lived in commands, in threads of
workers and in tests, and nobody tells when one ends, except to its asynchronous generators: so a
suspended one holds the thing and closes it when the loop shuts its generators down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerLoop(Generic[T]):
    """`get()` makes the running loop's on first use. `close` is awaited as the loop ends."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._held: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]
        ] = WeakKeyDictionary()

    def get(self) -> T:
        """The running loop's; raises RuntimeError where none runs."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            value = self._make()
            holder = self._hold(loop, value)
            with suppress(StopIteration):  # how a step that awaits nothing ends
                holder.asend(None).send(None)
            held = self._held[loop] = value, holder
        return held[0]

    async def _hold(self, loop: asyncio.AbstractEventLoop, value: T) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            # Things hold their loop: without this, neither would ever be freed.
            self._held.pop(loop, None)
            await self._close(value)
