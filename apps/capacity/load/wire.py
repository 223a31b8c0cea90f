"""HTTP/1.1 to one server over kept connections: asyncio, llhttp, and as little else as will do.

Times are taken when bytes arrive, before anything is read out of them. What goes wrong is a code,
not an exception: it is counted. Decision 0035 has the figures that speak against httpx here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import httptools

OVERHEAD_BYTES_MAX = 64 * 1024  # of a head, of trailers, between two pieces of a body
# Shorter than any server's: uvicorn, under vLLM and SGLang, closes an idle connection after 5 s.
KEEP_ALIVE_S = 4.0
# For the body's end after a reply has said that nothing follows: then the connection can be kept.
TRAILER_S = 0.1
_FINAL = 200  # status codes below are followed by another


class Reply(Protocol):
    """Who reads one reply. A code other than "" ends it, and with it the connection."""

    begun_s: float | None  # set by the server
    sent_s: float | None  # set by the server
    end_s: float | None  # set by the connection

    @property
    def is_whole(self) -> bool:
        """Whether the reply has said that nothing follows."""

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> str: ...

    def on_body(self, data: bytes, at: float) -> str: ...


Dial = Callable[[Callable[[], "Connection"]], Awaitable["Connection"]]


class Connection(asyncio.Protocol):
    """One connection; a reply at a time."""

    def __init__(self) -> None:
        self.is_usable = False  # open, and nothing is left to be read
        self.idle_since = 0.0
        self.has_received = False  # any byte of the reply under way
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reply: Reply | None = None
        self._ended: asyncio.Future[str] | None = None
        self._trailer: asyncio.TimerHandle | None = None
        self._headers: dict[bytes, bytes] = {}
        self._overhead = 0  # bytes since the last of the body
        self._has_head = False
        self._at = 0.0
        self._fault = ""
        self._is_complete = False
        self._may_keep = False
        self._is_excess = False  # more has come than was asked for

    def ask(self, request: bytes, reply: Reply) -> asyncio.Future[str]:
        """Send; the code of how it ended comes later, "" for a whole reply."""
        self._parser = httptools.HttpResponseParser(self)
        self._reply, self._ended = reply, self._loop.create_future()
        self._headers, self._overhead, self._fault = {}, 0, ""
        self._has_head = self._is_complete = self._is_excess = False
        self.is_usable = self.has_received = False
        if self._transport is None:
            self._finish("closed", self._loop.time())
        else:
            reply.sent_s = self._loop.time()
            self._transport.write(request)
        return self._ended

    def abort(self) -> None:
        """Close at once; the server sees it within a round trip."""
        self.is_usable = False
        if self._trailer is not None:
            self._trailer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_usable = True

    def data_received(self, data: bytes) -> None:
        self._at = self._loop.time()
        if self._reply is None:
            self.abort()  # nobody has asked
            return
        self.has_received = True
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._is_excess = self._is_complete
            if not self._is_complete:
                self._fault = self._fault or "not_http"
        if self._overhead > OVERHEAD_BYTES_MAX:
            self._fault = self._fault or "too_large"
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._transport = None
        if self._reply is None:
            return
        framed = {b"content-length", b"transfer-encoding"} & self._headers.keys()
        if exc is None and self._has_head and not framed:
            self._finish("", self._loop.time())  # such a body ends with its connection
        else:
            self._finish("closed" if exc is None else "reset", self._loop.time())

    # --- the parser's side ---

    def on_message_begin(self) -> None:
        self._is_excess = self._is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # trailers are of no use here
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FINAL or self._is_excess:
            return
        self._has_head = True
        if self._reply is not None and not self._fault:
            self._fault = self._reply.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        self._overhead = 0
        if self._reply is not None and not self._fault and not self._is_complete:
            self._fault = self._reply.on_body(data, self._at)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_complete = True
            self._may_keep = self._parser.should_keep_alive()  # it knows only now
        else:
            self._headers = {}  # of an interim reply

    # --- ends ---

    def _look(self) -> None:
        """Whether what has come was the end of the reply."""
        if self._fault:
            self._finish(self._fault, self._at)
        elif self._is_complete:
            may_keep = self._may_keep and not self._is_excess
            self.is_usable = may_keep and self._transport is not None
            self._finish("", self._at, is_kept=self.is_usable)
        elif self._reply is not None and self._reply.is_whole and self._trailer is None:
            self._trailer = self._loop.call_later(TRAILER_S, self._finish, "", self._at)

    def _finish(self, code: str, at: float, *, is_kept: bool = False) -> None:
        reply, ended, trailer = self._reply, self._ended, self._trailer
        self._reply = self._ended = self._trailer = None
        if trailer is not None:
            trailer.cancel()
        if not is_kept:
            self.abort()
        if reply is None or ended is None:
            return
        if reply.is_whole and code in ("closed", "reset"):
            code = ""  # it had said before that nothing follows
        if reply.end_s is None:
            reply.end_s = at
        if not ended.done():
            ended.set_result(code)


class Server:
    """One server, with the connections to it that nobody uses."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._kept: deque[Connection] = deque()
        self._loop = asyncio.get_running_loop()

    async def ask(self, request: bytes, reply: Reply, *, until: float) -> str:
        """Send `request` and return when the reply has ended: a code, "" for a whole one.

        `until` is a time of the loop's clock. Cancelling closes the connection.
        """
        reply.begun_s = self._loop.time()
        try:
            async with asyncio.timeout_at(until):
                code = await self._asked(request, reply)
        except TimeoutError:
            code = "timeout"
        if reply.end_s is None:
            reply.end_s = self._loop.time()
        return code

    def close(self) -> None:
        while self._kept:
            self._kept.pop().abort()

    async def _asked(self, request: bytes, reply: Reply) -> str:
        connection = self._idle()
        if connection is not None:
            code = await self._on(connection, request, reply)
            # The server had closed it meanwhile; once more does no harm where it said nothing.
            if code not in ("closed", "reset") or connection.has_received:
                return code
            reply.end_s = None
        try:
            connection = await self._dial(Connection)
        except ConnectionRefusedError:
            return "connection_refused"
        except OSError:
            return "connection_failed"
        return await self._on(connection, request, reply)

    async def _on(self, connection: Connection, request: bytes, reply: Reply) -> str:
        try:
            code = await connection.ask(request, reply)
        except asyncio.CancelledError:
            connection.abort()
            raise
        if connection.is_usable:
            connection.idle_since = self._loop.time()
            self._kept.append(connection)
        return code

    def _idle(self) -> Connection | None:
        """The one used last; those that are too old go."""
        oldest = self._loop.time() - KEEP_ALIVE_S
        while self._kept and self._kept[0].idle_since <= oldest:
            self._kept.popleft().abort()
        while self._kept:
            if (connection := self._kept.pop()).is_usable:
                return connection
        return None
