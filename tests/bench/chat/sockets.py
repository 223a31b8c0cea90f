"""The people: so many sockets that wait, so many that follow an answer, in one process.

Raw frames rather than a library's client, so that it takes little of the machine that it measures.
An Order as JSON is the first line of standard input. It prints a line when it has come to a phase
(`idle`, `streaming`, `ended`) and goes on at the next line of input; the last line is its Report.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from tests.bench.chat.upstream import STAMP

_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
_ACK_EVERY = 16
_AT_ONCE = 50
_PING_S = 25.0
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Order:
    """Who connects where, and what is asked."""

    ports: list[int]  # of the web processes, in turn
    origin: str
    path: str
    idle: list[str]  # a session's cookie for each socket that waits
    asking: list[str]  # and for each that asks
    collection: str
    spread_s: float  # the questions are asked over this time

    def write(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass
class Report:
    """What came. Delays in ms, from the model server's sending a token to its frame's arrival."""

    delays_ms: list[float] = field(default_factory=list)  # a frame; while all were being written
    states: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    tokens: int = 0
    out_of_order: int = 0
    first_s: list[float] = field(default_factory=list)  # from the question to the first token
    closed: int = 0  # sockets that the site closed
    refused: list[str] = field(default_factory=list)


class Socket(asyncio.Protocol):
    """A browser's websocket, as far as the chat needs it."""

    def __init__(self, head: bytes, people: People) -> None:
        self._head = head
        self._people = people
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._open = False
        self._next = 0  # the next frame's number
        self.asked_at = 0.0
        self.said_hello = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._people.lost(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._open:
            head, found, rest = self._received.partition(b"\r\n\r\n")
            if not found:
                return
            assert head.startswith(b"HTTP/1.1 101"), head[:200]
            self._open, self._received = True, bytearray(rest)
        while (message := self._take()) is not None:
            self._on_message(*message)

    def send(self, **frame: Any) -> None:
        self._write(_TEXT, json.dumps({"v": 2, **frame}).encode())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take(self) -> tuple[int, bytes] | None:
        """The next whole message; the site's are neither masked nor in pieces."""
        data = self._received
        if len(data) < 2:
            return None
        length, at = data[1] & 0x7F, 2
        if length > 125:
            at = 4 if length == 126 else 10
            length = int.from_bytes(data[2:at], "big")
        if len(data) < max(at, 2) + length:
            return None
        opcode, payload = data[0] & 0xF, bytes(data[at : at + length])
        del data[: at + length]
        return opcode, payload

    def _write(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        if self._transport is not None:
            # A mask of zeros leaves the payload as it is.
            self._transport.write(bytes([0x80 | opcode]) + length + bytes(4) + payload)

    def _on_message(self, opcode: int, payload: bytes) -> None:
        if opcode == _PING:
            self._write(_PONG, payload)
        elif opcode == _CLOSE:
            self.close()
        elif opcode == _TEXT:
            self._on_frame(json.loads(payload))

    def _on_frame(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "hello":
            self.said_hello.set_result(None)
        elif frame["type"] == "error":
            self._people.report.refused.append(frame["message"])
            self._people.lost(self)
        elif "seq" in frame:
            if frame["seq"] != self._next:
                self._people.report.out_of_order += 1
            self._next = frame["seq"] + 1
            if self._next % _ACK_EVERY == 0:
                self.send(type="ack", answer=frame["answer"], seq=frame["seq"])
            self._people.on_frame(self, frame)


class People:
    """All sockets, and what they are told."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.report = Report()
        self._sockets: list[Socket] = []
        self._asking: set[Socket] = set()
        self._writing: set[Socket] = set()
        self._ended: set[Socket] = set()
        self._expected = len(order.asking)
        self.all_writing = asyncio.Event()
        self.first_ended = asyncio.Event()
        self.all_ended = asyncio.Event()

    async def connect(self, cookies: list[str]) -> list[Socket]:
        """A socket for each, some at a time, until each has heard hello."""
        made: list[Socket] = []
        for start in range(0, len(cookies), _AT_ONCE):
            some = [
                await self._connect(cookie, start + index)
                for index, cookie in enumerate(cookies[start : start + _AT_ONCE])
            ]
            async with asyncio.timeout(_TIMEOUT_S):
                await asyncio.gather(*(socket.said_hello for socket in some))
            made += some
        self._sockets += made
        return made

    async def _connect(self, cookie: str, index: int) -> Socket:
        port = self.order.ports[index % len(self.order.ports)]
        lines = [
            f"GET {self.order.path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            f"Origin: {self.order.origin}",
            f"Cookie: {cookie}",
        ]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode()
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(lambda: Socket(head, self), "127.0.0.1", port)
        return socket

    def ask(self, socket: Socket, number: int) -> None:
        self._asking.add(socket)
        socket.asked_at = time.monotonic()
        socket.send(
            type="ask",
            id=uuid.uuid4().hex,  # one that was used before would be the same question sent again
            conversation=None,
            after=None,
            collections=[self.order.collection],
            models=[],
            question=f"How are documents read and cut into passages? ({number})",
        )

    def on_frame(self, socket: Socket, frame: dict[str, Any]) -> None:
        self.report.frames += 1
        if frame["type"] == "answer.tokens":
            self._on_tokens(socket, frame["text"])
        elif frame["type"] == "answer.finished":
            state = frame["state"]
            self.report.states[state] = self.report.states.get(state, 0) + 1
            self._end(socket)

    def _on_tokens(self, socket: Socket, text: str) -> None:
        stamps = STAMP.findall(text)
        self.report.tokens += len(stamps)
        if self.all_writing.is_set() and not self.first_ended.is_set() and stamps:
            # Of the token that waited longest for its frame.
            self.report.delays_ms.append(time.monotonic() * 1000 - float(stamps[0]))
        if socket not in self._writing:
            self.report.first_s.append(round(time.monotonic() - socket.asked_at, 3))
        self._writing.add(socket)
        if len(self._writing) == self._expected:
            self.all_writing.set()

    def lost(self, socket: Socket) -> None:
        self.report.closed += 1
        if socket in self._asking:
            self._end(socket)

    async def ping(self) -> None:
        """As pages do, each socket every 25 s."""
        while True:
            for socket in list(self._sockets):
                socket.send(type="ping")
                await asyncio.sleep(_PING_S / len(self._sockets))

    def _end(self, socket: Socket) -> None:
        self.first_ended.set()
        self.all_writing.set()
        self._ended.add(socket)
        if len(self._ended) >= self._expected:
            self.all_ended.set()

    def close(self) -> None:
        for socket in self._sockets:
            socket.close()


async def run(order: Order) -> None:
    people = People(order)
    await people.connect(order.idle)
    pings = asyncio.create_task(people.ping())
    await _phase("idle")
    askers = await people.connect(order.asking)
    for number, asker in enumerate(askers):
        people.ask(asker, number)
        await asyncio.sleep(order.spread_s / len(askers))
    async with asyncio.timeout(_TIMEOUT_S):
        await people.all_writing.wait()
        if people.first_ended.is_set():
            raise RuntimeError(f"not all were written to at once: {people.report}")
        print("streaming", flush=True)
        await people.first_ended.wait()
        await _phase("ended")
        await people.all_ended.wait()
    pings.cancel()
    print(json.dumps(asdict(people.report)), flush=True)
    people.close()


async def _phase(name: str) -> None:
    print(name, flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(run(Order.read(sys.stdin.readline())))
