"""The load generator: so many streams at a time, timed from raw bytes.

It runs in a process of its own, so that neither the site nor the report takes its time: an Order
as JSON on standard input, a list of `[first_ms, total_ms]` on standard output, one a request, null
where it failed. A stream begins its next request when its last has ended, on a connection that is
kept. Each request's message is another unless the order says that they are the same.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Self

from tests.bench.gateway.upstream import WORD

_TOKEN = WORD.encode()
_END = b"0\r\n\r\n"
_TIMEOUT_S = 30.0

Timing = tuple[float, float] | None  # ms to the first token and to the end; None: it failed


@dataclass(frozen=True)
class Order:
    """What is to be sent."""

    port: int
    path: str
    streams: int
    requests: int
    series: str  # no two orders ask the same
    same: bool = False  # one question over and over
    tokens: int = 32  # an answer with another number has failed
    spread_s: float = 0.0  # the streams begin over this time; 0: at the same instant
    headers: dict[str, str] = field(default_factory=dict)
    awaits: str = ""  # a reply without this in its head has failed

    def write(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def request(self, number: int) -> bytes:
        """One request's bytes."""
        asked = f"Series {self.series}: what is the answer to {0 if self.same else number}?"
        body = {
            "model": "tgi",
            "messages": [{"role": "user", "content": asked}],
            "max_tokens": self.tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        content = json.dumps(body).encode()
        headers = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "content-length": str(len(content)),
            **self.headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + content


class Exchange(asyncio.Protocol):
    """A kept connection with one request in flight."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._began = 0.0
        self._first_ms: float | None = None
        self._ended: asyncio.Future[Timing] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end(None)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def send(self, request: bytes) -> asyncio.Future[Timing]:
        assert self._transport is not None
        self._received.clear()
        self._first_ms = None
        self._ended = asyncio.get_running_loop().create_future()
        self._began = perf_counter()
        self._transport.write(request)
        return self._ended

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._first_ms is None and _TOKEN in self._received:
            self._first_ms = self._elapsed_ms()
        if self._received.endswith(_END):
            self._end(self._timing())
        elif self._is_refusal():
            self._end(None)
            self.close()

    def _timing(self) -> Timing:
        """None unless it is the whole answer, as awaited."""
        received = self._received
        head, _, body = received.partition(b"\r\n\r\n")
        good = (
            head.startswith(b"HTTP/1.1 200")
            and self._order.awaits.encode() in head.lower()
            and body.count(_TOKEN) == self._order.tokens
            and b"[DONE]" in body[-80:]
        )
        return (self._first_ms, self._elapsed_ms()) if good and self._first_ms else None

    def _is_refusal(self) -> bool:
        """A reply with a length is no stream."""
        head, found, _ = self._received.partition(b"\r\n\r\n")
        return bool(found) and b"content-length:" in head.lower()

    def _end(self, timing: Timing) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(timing)

    def _elapsed_ms(self) -> float:
        return (perf_counter() - self._began) * 1000


async def run(order: Order) -> list[Timing]:
    """The timings of `requests` requests, `streams` at a time."""
    numbers = iter(range(order.requests))
    pause_s = order.spread_s / order.streams
    streams = [_stream(order, numbers, place * pause_s) for place in range(order.streams)]
    return [timing for timings in await asyncio.gather(*streams) for timing in timings]


async def _stream(order: Order, numbers: Iterator[int], wait_s: float) -> list[Timing]:
    loop = asyncio.get_running_loop()
    timings: list[Timing] = []
    _, exchange = await loop.create_connection(lambda: Exchange(order), "127.0.0.1", order.port)
    await asyncio.sleep(wait_s)
    for number in numbers:
        if not exchange.is_open:
            _, exchange = await loop.create_connection(
                lambda: Exchange(order), "127.0.0.1", order.port
            )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                timings.append(await exchange.send(order.request(number)))
        except TimeoutError:
            timings.append(None)
            exchange.close()
    exchange.close()
    return timings


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Order.read(sys.stdin.read())))))
