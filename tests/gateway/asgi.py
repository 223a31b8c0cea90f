"""The API called in-process: a client that can read a stream piece by piece, and go away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.gateway.api.asgi import application


@dataclass
class Answer:
    """What came back; `pieces` as they were sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events, without comments and `[DONE]`."""
        lines = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        assert lines[-1:] == ["[DONE]"]
        return [json.loads(line) for line in lines[:-1]]


class Connection:
    """One request under way. `heard` wakes at every message from the application."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard = asyncio.Event()
        self.work: asyncio.Task[None] | None = None

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            assert self.answer.status == 0, "started twice"
            self.answer.status = message["status"]
            pairs = message["headers"]
            self.answer.headers = {name.decode(): value.decode() for name, value in pairs}
        else:
            assert not self.answer.complete, "sent after the end"
            self.answer.pieces.append(message.get("body", b""))
            self.answer.complete = not message.get("more_body", False)
        self.heard.set()

    def leave(self) -> None:
        """Close the connection."""
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def until(self, condition: Any) -> None:
        """Wait until `condition()` holds after some message."""
        async with asyncio.timeout(10):
            while not condition():
                self.heard.clear()
                await self.heard.wait()

    async def done(self) -> Answer:
        assert self.work is not None
        async with asyncio.timeout(10):
            await self.work
        return self.answer


def open_request(
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str = "",
    headers: Mapping[str, str] | None = None,
    query: str = "",
) -> Connection:
    """Begin a request; `body` is sent as JSON unless it is bytes."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = {"content-type": "application/json", **(headers or {})}
    if key:
        lines["authorization"] = f"Bearer {key}"
    connection = Connection()
    connection.incoming.put_nowait({"type": "http.request", "body": raw, "more_body": False})
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in lines.items()],
    }
    connection.work = asyncio.create_task(
        application(scope, connection.incoming.get, connection.send)
    )
    return connection


async def ask(method: str, path: str, body: Any = None, **more: Any) -> Answer:
    """One request, and its whole answer."""
    return await open_request(method, path, body, **more).done()
