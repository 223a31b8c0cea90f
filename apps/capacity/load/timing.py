"""An event loop whose timers are exact to some tenths of a millisecond.

Python's epoll takes whole milliseconds and asyncio rounds up before it: timers were 1.1 ms late on
average and 2 ms at most. select() takes microseconds, and an epoll is a file that it can wait for.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.EpollSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` with such a loop."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector())) as runner:
        return runner.run(work)
