"""A clock that nobody waits for, and connections without a network: times come out exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from apps.capacity.load.null_server import Answering, Pacing
from apps.capacity.load.wire import Connection

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    """Instead of waiting, the clock goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def stand_still(self, seconds: float) -> None:
        """As where something else holds the process up for so long."""
        self._virtual.now += seconds

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on a virtual clock."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Pipe(asyncio.Transport):
    """One end of a connection in memory; what is written arrives in the loop's next round."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.other: Pipe | None = None
        self.protocol: asyncio.Protocol | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.other is not None and not self._is_closing:
            self._loop.call_soon(self.other._arrive, bytes(data))

    def _arrive(self, data: bytes) -> None:
        if self.protocol is not None and not self._is_closing:
            self.protocol.data_received(data)

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        self._end(None)

    def reset(self) -> None:
        """As the other end sees the death of this one's process."""
        if self.other is not None:
            self._loop.call_soon(self.other._end, ConnectionResetError())
        self._end(None)

    def _end(self, exc: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self.protocol is not None:
            self._loop.call_soon(self.protocol.connection_lost, exc)
        if self.other is not None:
            self._loop.call_soon(self.other._end, None)

    def is_closing(self) -> bool:
        return self._is_closing


def dialling(
    server: Callable[[], asyncio.Protocol],
) -> Callable[[Callable[[], Connection]], Coroutine[Any, Any, Connection]]:
    """A `wire.Dial` to protocols that `server` makes."""

    async def dial(factory: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        near, far = Pipe(loop), Pipe(loop)
        near.other, far.other = far, near
        connection, answering = factory(), server()
        near.protocol, far.protocol = connection, answering
        answering.connection_made(far)
        connection.connection_made(near)
        return connection

    return dial


def paced(pacing: Pacing | None) -> Callable[[], asyncio.Protocol]:
    """The null server's protocol with known times."""
    return lambda: Answering(pacing)
