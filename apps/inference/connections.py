"""Connections to model servers, kept between calls: an httpx transport on asyncio and llhttp.

httpx's own pool asks each of its connections whether it is idle at every call's begin and end: at
64 streams that took 10 ms of CPU a call and held first tokens back by 300 ms. Its parser, in
Python, takes half the time of what is left. This one took 1.9 ms for a call of 34 events, with
everything around it (see docs/decisions/0027).

A call takes a connection that nobody uses, or opens one; how many there may be is for others to
say. A body that was read to its end leaves its connection for the next call; closing a reply
before aborts it, which tells the server to stop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import httpx

HEAD_BYTES_MAX = 64 * 1024
# A reader that falls behind lets the server wait instead of filling our memory.
BUFFER_BYTES_MAX = 256 * 1024
KEPT_MAX = 256  # idle connections to one server
_FINAL = 200  # status codes below are followed by another

Origin = tuple[str, str, int]


class _Connection(asyncio.Protocol):
    """One connection; a reply at a time."""

    def __init__(self) -> None:
        self.usable = False  # open, and nothing is left to be read
        self.idle_since = 0.0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._fault: Exception | None = None
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._received = 0  # bytes of this reply
        self._has_head = False
        self._ended = True
        self._excess = False  # more has come than was asked for

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        self._transport = None
        if not self._ended:
            self._lose(exc)
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            self.abort()  # nobody has asked
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(httpx.RemoteProtocolError(f"not HTTP: {type(exc).__name__}"))
        if not self._has_head and self._received > HEAD_BYTES_MAX:
            self._fail(httpx.RemoteProtocolError("the reply's head is too large"))
        if self._buffered > BUFFER_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    # --- the parser's side ---

    def on_message_begin(self) -> None:
        self._excess = self._ended

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # trailers are of no use here
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._excess:
            return
        self.status = self._parser.get_status_code()
        if self.status >= _FINAL:
            self._has_head = True

    def on_body(self, data: bytes) -> None:
        if not self._excess:
            self._pieces.append(data)
            self._buffered += len(data)

    def on_message_complete(self) -> None:
        if self.status < _FINAL:
            self.headers = []  # of an interim reply
            return
        self._ended = True
        keep = self._parser.should_keep_alive() and self._transport is not None
        self.usable = keep and not self._excess

    # --- the call's side ---

    @property
    def nothing_received(self) -> bool:
        return self._received == 0

    async def ask(self, request: bytes, patience_s: float | None) -> None:
        """Send a request and return when its reply's head is there."""
        self._parser = httptools.HttpResponseParser(self)
        self._fault, self.headers, self._pieces = None, [], []
        self._buffered = self._received = self.status = 0
        if self._transport is None:
            raise httpx.ReadError("closed")
        self.usable = self._has_head = self._ended = self._excess = False
        self._transport.resume_reading()
        self._transport.write(request)
        while not self._has_head:
            await self._more(patience_s)

    async def read(self, patience_s: float | None) -> bytes:
        """All of the body that has come since, at least a byte; b"" at its end."""
        while not self._pieces:
            if self._ended:
                return b""
            await self._more(patience_s)
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        if self._buffered > BUFFER_BYTES_MAX and self._transport is not None:
            self._transport.resume_reading()
        self._buffered = 0
        return data

    def abort(self) -> None:
        """Close at once; the server sees it within a round trip."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    async def _more(self, patience_s: float | None) -> None:
        """Wait until something has come, or raise why nothing does."""
        if self._fault is not None:
            raise self._fault
        self._waiter = self._loop.create_future()
        timer = None
        if patience_s is not None:
            timer = self._loop.call_later(patience_s, self._fail, httpx.ReadTimeout("silence"))
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        if self._fault is not None and not self._pieces:
            raise self._fault

    def _lose(self, exc: Exception | None) -> None:
        framed = {b"content-length", b"transfer-encoding"}
        if exc is None and self._has_head and not framed & {n.lower() for n, _ in self.headers}:
            self._ended = True  # such a body ends with its connection
        elif self._fault is None:
            if exc is None:
                self._fault = httpx.RemoteProtocolError("closed before the reply's end")
            else:
                self._fault = httpx.ReadError(type(exc).__name__)

    def _fail(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Body(httpx.AsyncByteStream):
    """A reply's body. Closing it keeps the connection only after its end."""

    def __init__(
        self, connection: _Connection, kept: deque[_Connection], patience_s: float | None
    ) -> None:
        self._connection = connection
        self._kept = kept
        self._patience_s = patience_s
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._connection.read(self._patience_s):
            yield data

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._connection.usable and len(self._kept) < KEPT_MAX:
            self._connection.idle_since = asyncio.get_running_loop().time()
            self._kept.append(self._connection)
        else:
            self._connection.abort()


@dataclass
class KeptConnections(httpx.AsyncBaseTransport):
    """An httpx transport of one event loop; see the module."""

    tls: ssl.SSLContext
    keep_alive_s: float  # shorter than any server's: a closed connection costs a try
    _kept: defaultdict[Origin, deque[_Connection]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The reply, its body still unread; raises httpx's exceptions."""
        patience: dict[str, float | None] = request.extensions.get("timeout", {})
        kept = self._kept[_origin(request.url)]
        raw = _head_of(request) + await request.aread()
        connection = self._idle(kept)
        if connection is not None:
            try:
                return await self._ask(connection, kept, request, raw, patience)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                # The server had closed it meanwhile; once more does no harm where it said nothing.
                if not connection.nothing_received:
                    raise
        connection = await self._opened(request.url, patience.get("connect"))
        return await self._ask(connection, kept, request, raw, patience)

    async def _ask(
        self,
        connection: _Connection,
        kept: deque[_Connection],
        request: httpx.Request,
        raw: bytes,
        patience: dict[str, Any],
    ) -> httpx.Response:
        try:
            await connection.ask(raw, patience.get("read"))
        except BaseException:
            connection.abort()
            raise
        return httpx.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(connection, kept, patience.get("read")),
            request=request,
        )

    def _idle(self, kept: deque[_Connection]) -> _Connection | None:
        """The one used last; those that are too old go."""
        oldest = asyncio.get_running_loop().time() - self.keep_alive_s
        while kept and kept[0].idle_since <= oldest:
            kept.popleft().abort()
        while kept:
            if (connection := kept.pop()).usable:
                return connection
        return None

    async def _opened(self, url: httpx.URL, patience_s: float | None) -> _Connection:
        loop = asyncio.get_running_loop()
        scheme, host, port = _origin(url)
        secure = scheme == "https"
        try:
            async with asyncio.timeout(patience_s):
                _, connection = await loop.create_connection(
                    _Connection,
                    host,
                    port,
                    ssl=self.tls if secure else None,
                    server_hostname=host if secure else None,
                )
        except TimeoutError as exc:
            raise httpx.ConnectTimeout("no connection in time") from exc
        except OSError as exc:
            raise httpx.ConnectError(type(exc).__name__) from exc
        return connection

    async def aclose(self) -> None:
        for kept in self._kept.values():
            for connection in kept:
                connection.abort()
        self._kept.clear()


def _origin(url: httpx.URL) -> Origin:
    if url.scheme not in ("http", "https"):
        raise httpx.UnsupportedProtocol("an address begins with http:// or https://")
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _head_of(request: httpx.Request) -> bytes:
    """The request's first bytes. Headers that httpx has let through hold no line ends of theirs."""
    fields = list(request.headers.raw)
    if any(b"\r" in part or b"\n" in part for field in fields for part in field):
        raise httpx.LocalProtocolError("a header holds the end of a line")
    lines = b"".join(b"%b: %b\r\n" % field for field in fields)
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (request.method.encode(), request.url.raw_path, lines)
