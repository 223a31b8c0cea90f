"""One request and its answer over ASGI: a bounded body in, a whole reply or a stream out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from apps.gateway.api.errors import ApiError, invalid
from apps.gateway.api.pressure import Gate

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_MAX_BYTES = 8 * 1024 * 1024  # a few images in a message; text alone is far below
KEEP_ALIVE_S = 15.0  # as TGI does; proxies commonly give up after 60 s
_FIXED = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class ClientGone(Exception):
    """The client closed the connection, or has stopped reading for too long."""


@dataclass
class Exchange:
    """A request below `/v1/`."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[str, str]
    # Of the answer, whatever it will be.
    reply_headers: dict[str, str] = field(default_factory=dict)
    more_headers: Callable[[], Mapping[str, str]] = dict  # as they are when it begins
    status: int = 0  # as sent; 0 before
    # Called when the client has gone, before the work for it is cancelled.
    on_gone: Callable[[], None] = lambda: None
    finished: bool = False  # whether all of the answer has been sent
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0
    _whole: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def of(cls, scope: Scope, receive: Receive, send: Send) -> Exchange:
        """Of a header that was sent several times, the last counts."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        return cls(scope, receive, send, headers)

    @property
    def started(self) -> bool:
        """Whether a status has been sent."""
        return self.status > 0

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    def query_values(self) -> list[str]:
        query = self.scope.get("query_string", b"").decode("latin-1")
        return [value for _, value in parse_qsl(query, keep_blank_values=True)]

    async def listen(self) -> None:
        """Gather the body; return when the client has gone, or the answer is complete."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                self._whole.set()
                return
            piece = message.get("body", b"")
            self._size += len(piece)
            if self._size <= BODY_MAX_BYTES:  # the rest is only counted
                self._pieces.append(piece)
            if not message.get("more_body", False) or self._size > BODY_MAX_BYTES:
                self._whole.set()

    async def body(self) -> bytes:
        """The JSON body as bytes; raises ApiError for what is too large or something else."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            words = "Send JSON, with Content-Type: application/json."
            raise invalid(words, code="content_type", status=415)
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 20 and int(announced) > BODY_MAX_BYTES:
            raise _too_large()
        await self._whole.wait()
        if self._size > BODY_MAX_BYTES:
            raise _too_large()
        body, self._pieces = b"".join(self._pieces), []
        return body

    async def reply(
        self,
        status: int,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        kind: str = "application/json",
    ) -> None:
        """A whole reply. To HEAD it has no body."""
        lines = {"content-length": str(len(body)), **(headers or {})}
        if body:
            lines["content-type"] = kind
        await self.start(status, lines)
        await self.finish(b"" if self.method == "HEAD" else body)

    async def reply_json(self, payload: object, headers: Mapping[str, str] | None = None) -> None:
        await self.reply(200, orjson.dumps(payload), headers)

    async def finish(self, body: bytes = b"") -> None:
        """The last of the body. What Daphne then tells as a disconnect is none."""
        self.finished = True
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: ApiError) -> None:
        await self.reply(error.status, error.encoded(), error.headers)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        lines = {**_FIXED, **self.reply_headers, **self.more_headers(), **headers}
        encoded = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in lines.items()
        ]
        self.status = status
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})


class EventStream:
    """Server-sent events to one client, with a comment after each KEEP_ALIVE_S of silence.

    The status is sent with the first write: until then an error can still be a status of its own.
    Silence sends it too, for a client that hears nothing gives up.

        async with EventStream(exchange) as stream:
            await stream.write(b"data: {}\\n\\n")
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._keep_alive_s = KEEP_ALIVE_S
        self._gate = Gate.before(exchange.send)
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> EventStream:
        self._timer = self._loop.call_later(self._keep_alive_s, self._tick)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()
        self._gate.close()

    async def write(self, data: bytes) -> None:
        """Send; waits while the client reads more slowly than this writes. Raises ClientGone."""
        if self._gate.is_shut and not await self._gate.opens():
            self._exchange.on_gone()
            raise ClientGone
        async with self._writing:
            if not self._exchange.started:
                await self._exchange.start(200, {"content-type": "text/event-stream"})
            await self._exchange.send(
                {"type": "http.response.body", "body": data, "more_body": True}
            )
        self._last = self._loop.time()

    async def end(self) -> None:
        self._gate.close()
        await self._exchange.finish()

    def _tick(self) -> None:
        silent_s = self._loop.time() - self._last
        if silent_s >= self._keep_alive_s and not self._gate.is_shut:
            self._comment = self._loop.create_task(self.write(b": keep-alive\n\n"))
            silent_s = 0.0
        wait_s = max(self._keep_alive_s - silent_s, 0.01)
        self._timer = self._loop.call_later(wait_s, self._tick)


def _too_large() -> ApiError:
    words = f"The body is larger than {BODY_MAX_BYTES // 1024**2} MiB."
    return invalid(words, code="too_large", status=413)
