"""A client of the chat's protocol, for programs: asks, follows, acknowledges, comes back.

    async with ChatClient(url, cookie=f"sessionid={key}", origin=root) as client:
        answer = await client.ask("…", collections=[collection_id])
        await answer.finished(timeout_s=30)
        assert answer.text.startswith("…")

A lost connection is opened again, with jitter, and each answer followed from its last frame on. A
frame that is missing, comes twice or out of order is noted in the answer's `faults`.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import websockets
from websockets.asyncio.client import ClientConnection, connect

VERSION = 2
# As the page does: whichever comes first.
ACK_EVERY_FRAMES = 16
ACK_EVERY_S = 0.25
FIRST_RETRY_S, LONGEST_RETRY_S = 0.1, 2.0
FINAL_CODES = frozenset({4401, 4403})


class ChatRefused(Exception):
    """The server refused a frame; `code` says why."""

    def __init__(self, frame: dict[str, Any]) -> None:
        super().__init__(frame["message"])
        self.code: str = frame["code"]


@dataclass
class FollowedAnswer:
    """An answer as this client has seen it."""

    id: str
    frames: list[dict[str, Any]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)  # when each came, on the monotonic clock
    faults: list[str] = field(default_factory=list)
    gone: bool = False
    acked: int = -1
    acked_at: float = 0.0
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last_seq(self) -> int:
        return self.frames[-1]["seq"] if self.frames else -1

    @property
    def text(self) -> str:
        return "".join(f["text"] for f in self.frames if f["type"] == "answer.tokens")

    @property
    def end(self) -> dict[str, Any] | None:
        """The last frame, once it is there."""
        last = self.frames[-1] if self.frames else None
        return last if last is not None and last["type"] == "answer.finished" else None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.gone or self.end is not None

    def take(self, frame: dict[str, Any]) -> None:
        """One more frame about this answer."""
        if frame["type"] == "answer.gone":
            self.gone = True
            self._over.set()
            return
        if frame["seq"] != self.last_seq + 1:
            self.faults.append(f"frame {frame['seq']} after {self.last_seq}")
        self.frames.append(frame)
        self.at.append(time.monotonic())
        if self.is_over:
            self._over.set()

    async def finished(self, *, timeout_s: float) -> dict[str, Any] | None:
        """The last frame; None where nothing is kept of the answer. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._over.wait()
        return self.end


class ChatClient:
    """One page's connection, which comes back by itself until it is closed."""

    def __init__(
        self,
        url: str,
        *,
        cookie: str,
        origin: str,
        acks: bool = True,
        on_frame: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.url = url
        self.acks = acks
        self.answers: dict[str, FollowedAnswer] = {}
        self.others: list[dict[str, Any]] = []  # frames about conversations
        self.connects = 0
        self.close_codes: list[int] = []
        self.connected = asyncio.Event()
        self._headers = {"Cookie": cookie}
        self._origin = origin
        self._on_frame = on_frame
        self._connection: ClientConnection | None = None
        self._asked: dict[str, asyncio.Future[FollowedAnswer]] = {}
        self._reading = asyncio.Event()
        self._reading.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        await asyncio.wait_for(self.connected.wait(), 30)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def ask(
        self,
        question: str,
        *,
        collections: Sequence[str],
        conversation: str | None = None,
        after: str | None = None,
        models: Sequence[str] = (),
        timeout_s: float = 30,
    ) -> FollowedAnswer:
        """Ask; the answer (the first, of two) once it has begun. Raises ChatRefused.

        Raises ConnectionError where the connection breaks before that: whether the question has
        arrived is not known then.
        """
        client_id = uuid.uuid4().hex
        begun = asyncio.get_running_loop().create_future()
        self._asked[client_id] = begun
        await self.send(
            type="ask",
            id=client_id,
            conversation=conversation,
            after=after,
            collections=list(collections),
            models=list(models),
            question=question,
        )
        return await asyncio.wait_for(begun, timeout_s)

    def follow(self, answer_id: str) -> FollowedAnswer:
        """Follow an answer from its first frame on, and after each break from the last seen on."""
        answer = self.answers.setdefault(answer_id, FollowedAnswer(answer_id))
        if self._connection is not None:
            self._soon(self._follow(answer))
        return answer

    async def stop(self, answer_id: str) -> None:
        await self.send(type="stop", answer=answer_id)

    async def send(self, **fields: Any) -> None:
        """Send a frame; raises ConnectionError where there is no connection."""
        if self._connection is None:
            raise ConnectionError("there is no connection at the moment")
        try:
            await self._connection.send(json.dumps({"v": VERSION, **fields}))
        except websockets.ConnectionClosed as exc:
            raise ConnectionError("the connection is closed") from exc

    def stall(self) -> None:
        """Read nothing, until `go_on`."""
        self._reading.clear()

    def go_on(self) -> None:
        self._reading.set()

    def cut(self) -> None:
        """Lose the connection, as a sleeping laptop does: without a word."""
        if self._connection is not None:
            self._connection.transport.abort()

    # --- The connection --------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        while True:
            before = self.connects
            try:
                async with connect(
                    self.url,
                    origin=self._origin,  # type: ignore[arg-type]
                    additional_headers=self._headers,
                    proxy=None,
                    ping_interval=None,
                    compression=None,
                    open_timeout=10,
                    close_timeout=1,
                ) as connection:
                    await self._serve(connection)
            except (OSError, TimeoutError, websockets.WebSocketException) as exc:
                code = getattr(getattr(exc, "rcvd", None), "code", 1006)
                self.close_codes.append(code)
                if code in FINAL_CODES:
                    return
            finally:
                self._lost()
            attempt = 0 if self.connects > before else attempt + 1
            ceiling = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**attempt)
            await asyncio.sleep(ceiling * random.uniform(0.5, 1))  # noqa: S311 - no secret

    async def _serve(self, connection: ClientConnection) -> None:
        ping: asyncio.Task[None] | None = None
        try:
            async for text in connection:
                frame = json.loads(text)
                if frame["type"] == "hello":
                    self._connection = connection
                    self.connects += 1
                    ping = asyncio.create_task(self._ping(connection, frame["ping_s"]))
                    self.connected.set()
                    for answer in self.answers.values():
                        if not answer.is_over:
                            await self._follow(answer)
                else:
                    await self._take(frame)
                await self._reading.wait()
            raise websockets.ConnectionClosedOK(None, None)
        finally:
            if ping is not None:
                ping.cancel()

    def _lost(self) -> None:
        self._connection = None
        self.connected.clear()
        for begun in self._asked.values():
            if not begun.done():
                begun.set_exception(ConnectionError("the connection broke before it began"))
        self._asked.clear()

    async def _take(self, frame: dict[str, Any]) -> None:
        if self._on_frame is not None:
            self._on_frame(frame)
        if frame["type"] == "error":
            begun = self._asked.pop(frame["id"], None)
            if begun is not None and not begun.done():
                begun.set_exception(ChatRefused(frame))
            return
        if "answer" not in frame:
            self.others.append(frame)
            return
        answer = self.answers.setdefault(frame["answer"], FollowedAnswer(frame["answer"]))
        answer.take(frame)
        if frame["type"] == "answer.started":
            begun = self._asked.pop(frame["id"], None)
            if begun is not None and not begun.done():
                begun.set_result(answer)
        if self.acks:
            await self._acknowledge(answer)

    async def _acknowledge(self, answer: FollowedAnswer) -> None:
        now = time.monotonic()
        new = answer.last_seq - answer.acked
        if new >= ACK_EVERY_FRAMES or (new and now - answer.acked_at >= ACK_EVERY_S):
            answer.acked, answer.acked_at = answer.last_seq, now
            await self.send(type="ack", answer=answer.id, seq=answer.acked)

    async def _follow(self, answer: FollowedAnswer) -> None:
        answer.acked = answer.last_seq
        await self.send(type="follow", answer=answer.id, after=answer.last_seq)

    async def _ping(self, connection: ClientConnection, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await connection.send(json.dumps({"v": VERSION, "type": "ping"}))

    def _soon(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
