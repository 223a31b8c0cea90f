"""A server that costs almost nothing: what is measured against it is the generator itself.

    python -m apps.capacity.load.null_server [PACE_MS]     prints its port; ends with its input

A question is answered with as many tokens as its `max_tokens` says, all at once or PACE_MS apart,
as an OpenAI-compatible stream. `Pacing` says when each is due; tests put in known latencies.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import cast

import orjson

from apps.capacity.load import timing

# (tokens, when the request came) -> when each token is due, by the loop's clock.
Pacing = Callable[[int, float], list[float]]

MODEL = "null"
_MOST_TOKENS = re.compile(rb'"max_(?:completion_)?tokens":\s*(\d{1,7})')
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d{1,9})", re.IGNORECASE)
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def at_pace(gap_s: float) -> Pacing:
    """The first token a gap after the request, and each next a gap after."""
    return lambda tokens, at: [at + gap_s * (number + 1) for number in range(tokens)]


class Answering(asyncio.Protocol):
    """One kept connection; answers its requests one after another."""

    def __init__(self, pacing: Pacing | None) -> None:
        self._pacing = pacing
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._due is not None:
            self._due.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end])
        length = int(found[1]) if (found := _LENGTH.search(head)) else 0
        if len(self._received) >= end + 4 + length:
            body = bytes(self._received[end + 4 : end + 4 + length])
            self._received = self._received[end + 4 + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1]
        if not path.endswith(b"/chat/completions"):
            self._write(_models() if path.endswith(b"/models") else _NOT_FOUND)
            return
        found = _MOST_TOKENS.search(body)
        tokens = max(1, int(found[1])) if found else 16
        prompt = body.count(b" ") + 1  # a word is a token here
        if self._pacing is None:
            self._write(_HEAD + _piece("w ") * (tokens - 1) + _last(prompt, tokens))
            return
        due = self._pacing(tokens, self._loop.time())
        self._due = self._loop.call_at(due[0], partial(self._write_next, due, 0, prompt))

    def _write_next(self, due: list[float], number: int, prompt: int) -> None:
        """Each token is due after the request, not after the last: delays do not add up."""
        head = _HEAD if number == 0 else b""
        if number == len(due) - 1:
            self._write(head + _last(prompt, len(due)))
            return
        self._write(head + _piece("w "))
        step = partial(self._write_next, due, number + 1, prompt)
        self._due = self._loop.call_at(due[number + 1], step)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


@lru_cache
def _piece(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return _event({"object": "chat.completion.chunk", "model": MODEL, "choices": [choice]})


def _last(prompt: int, tokens: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    end = _event({"choices": [], "usage": usage}) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return _piece("w", "length") + end


def _event(chunk: object) -> bytes:
    return _framed(b"data: %b\n\n" % orjson.dumps(chunk))


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@lru_cache
def _models() -> bytes:
    body = orjson.dumps({"object": "list", "data": [{"id": MODEL, "owned_by": "null"}]})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


async def serve(pacing: Pacing | None, port: int = 0) -> asyncio.Server:
    """Listens on loopback."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(partial(Answering, pacing), "127.0.0.1", port, backlog=4096)


async def _main() -> None:
    gap_s = float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0.0
    server = await serve(at_pace(gap_s) if gap_s else None)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - it is the protocol
    # Whoever started it holds the other end: it does not outlive them.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    timing.run(_main())
