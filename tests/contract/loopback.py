"""A loopback HTTP server that can misbehave: raw sockets, a thread a connection.

The doubles of TGI and TEI are built on it. Unlike a web framework it can cut a reply anywhere,
reset the connection, fall silent, and tell at once when the client has gone.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing then resets
_REASONS = {200: "OK", 401: "Unauthorized", 422: "Unprocessable Entity", 429: "Too Many Requests"}


class ClientGone(Exception):
    """The client closed the connection."""


class ConnectionOver(Exception):
    """We ended the connection."""


@dataclass
class Exchange:
    """One request, and the means to answer it."""

    connection: socket.socket
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def reply(
        self,
        status: int,
        body: bytes = b"",
        content_type: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """A whole reply; the connection is kept."""
        lines = {"content-length": str(len(body)), **(headers or {})}
        if content_type:
            lines["content-type"] = content_type
        self.send(_head(status, lines) + body)

    def reply_json(self, status: int, reply: object, headers: dict[str, str] | None = None) -> None:
        self.reply(status, json.dumps(reply).encode(), "application/json", headers)

    def reply_text(self, status: int, text: str) -> None:
        """As axum's extractors refuse."""
        self.reply(status, text.encode(), "text/plain; charset=utf-8")

    def start_stream(self, headers: dict[str, str]) -> None:
        self.send(_head(200, {"transfer-encoding": "chunked", **headers}))

    def send_chunk(self, data: bytes) -> None:
        """A piece of the stream, in a TCP segment of its own."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")

    def send(self, data: bytes) -> None:
        try:
            self.connection.sendall(data)
        except OSError as exc:
            raise ClientGone from exc

    def pause(self, seconds: float) -> None:
        """Wait; raises ClientGone as soon as the client closes."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], left)
            if readable and not self._alive():
                raise ClientGone

    def reset(self) -> NoReturn:
        """End the connection with a TCP reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        raise ConnectionOver

    def _alive(self) -> bool:
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False


class LoopbackServer:
    """`with Double(...) as server: server.url`. Subclasses answer in `handle`."""

    def __init__(self, *, port: int = 0) -> None:
        self.requests: list[Exchange] = []
        self.accepted = 0  # connections, ever
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._connections: set[socket.socket] = set()
        self._closing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def open_connections(self) -> int:
        return len(self._connections)

    def handle(self, exchange: Exchange) -> None:
        raise NotImplementedError

    def close_idle(self) -> None:
        """Close every connection, as a server does with those that were idle for long."""
        for connection in list(self._connections):
            connection.shutdown(socket.SHUT_RDWR)
        wait_for(lambda: not self._connections, within_s=2)

    def bodies(self, path: str) -> list[Any]:
        """Decoded JSON of every request to `path`, oldest first."""
        return [json.loads(r.body) for r in self.requests if r.path == path and r.body]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Stop listening and end every connection with a reset, as the death of a process does."""
        if self._closing:
            return
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(connection)
            self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as reader:
                while (exchange := _read(connection, reader)) is not None:
                    self.requests.append(exchange)
                    self.handle(exchange)
        except (ClientGone, ConnectionOver, OSError, ValueError):
            pass  # the connection is over, from either side
        finally:
            self._connections.discard(connection)


def wait_for(condition: Any, *, within_s: float) -> bool:
    """Whether `condition()` became true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _read(connection: socket.socket, reader: Any) -> Exchange | None:
    request_line = reader.readline().decode("latin-1").split()
    if len(request_line) < 2:
        return None
    headers: dict[str, str] = {}
    while (line := reader.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Exchange(connection, request_line[0], request_line[1], headers, body)
