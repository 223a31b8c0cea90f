"""Waiting for a client that reads slowly.

ASGI lets a server's `send` wait until the client has read, but Daphne's does not: what is sent is
kept in memory until it can be written, however much it is. Twisted beneath it tells a registered
producer when its buffer is full (64 KiB) and when it is empty again; that is what stops us here.
Under a server whose `send` waits by itself nothing is registered.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

# A client that reads nothing for so long is taken for gone: it holds a place at the upstream.
PATIENCE_S = 30.0


class Gate:
    """Shut while the client is behind; one of Twisted's push producers."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._patience_s = patience_s
        self._request: Any = None  # Daphne's, where there is one

    @classmethod
    def before(cls, send: Any) -> Gate:
        """A gate before an ASGI `send`; it stays open where that is not Daphne's."""
        gate = cls()
        # Daphne's is `partial(Server.handle_reply, request)`.
        request: Any = next(iter(getattr(send, "args", ())), None)
        if hasattr(request, "registerProducer") and getattr(request, "channel", None):
            request.registerProducer(gate, True)
            gate._request = request
        return gate

    @property
    def is_shut(self) -> bool:
        return not self._open.is_set()

    async def opens(self) -> bool:
        """Wait until the client has read; False where it does not in time: it is cut off then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self._open.wait()
        if self.is_shut and self._request is not None and self._request.channel is not None:
            # Closing would first wait for what is in the buffer to be read.
            self._request.channel.transport.abortConnection()
        return not self.is_shut

    def close(self) -> None:
        """No longer listen; twice does no harm."""
        request, self._request = self._request, None
        if request is not None and getattr(request, "channel", None):
            request.unregisterProducer()

    def pauseProducing(self) -> None:
        self._open.clear()

    def resumeProducing(self) -> None:
        self._open.set()

    def stopProducing(self) -> None:
        self._open.set()  # the connection is gone: `receive` tells
