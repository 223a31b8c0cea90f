"""A model server that costs almost nothing: TGI's chat stream from prepared bytes, on time.

The double of the tests (tests/contract/tgi.py) has a thread a connection and makes its events as
it goes; at 64 streams that hides what is to be measured. This one writes each token when it is due
after the request came, not after the one before, so that it doesn't add up its own delays.

    python -m tests.bench.gateway.upstream TOKENS GAP_MS      prints its port

`POST /null/…` sends the whole stream at once: what a load generator then measures is its own time.
`GET /counts` says how many generations there have been.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count

WORD = " token"  # every token of every answer holds it
_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def event(data: str) -> bytes:
    """One SSE event as a chunk of a chunked body."""
    body = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def stream_of(tokens: int) -> list[bytes]:
    """TGI's events: the tokens, the usage, and the end."""
    pieces = [
        _chunk(f"{WORD}{index}", "stop" if index == tokens - 1 else None) for index in range(tokens)
    ]
    usage = {"prompt_tokens": 40, "completion_tokens": tokens, "total_tokens": 40 + tokens}
    last = json.dumps({**_base(), "choices": [], "usage": usage})
    return [*pieces, event(last) + event("[DONE]") + b"0\r\n\r\n"]


def _chunk(text: str, reason: str | None) -> bytes:
    delta = {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return event(json.dumps({**_base(), "choices": [choice], "usage": None}))


def _base() -> dict[str, object]:
    return {
        "object": "chat.completion.chunk",
        "id": "",
        "created": int(time.time()),
        "model": _MODEL,
        "system_fingerprint": "3.3.7-native",
    }


class Connection(asyncio.Protocol):
    """One kept connection; answers its requests one after another."""

    generations = count()
    made = 0

    def __init__(self, events: list[bytes], gap_s: float) -> None:
        self._events = events
        self._gap_s = gap_s
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.lower().split(b"\r\n")
        lengths = [line.split(b":")[1] for line in lines if line.startswith(b"content-length:")]
        length = int(lengths[0]) if lengths else 0
        if len(rest) >= length:
            self._received = bytearray(rest[length:])
            self._answer(bytes(head.split(b" ", 2)[0]), bytes(head.split(b" ", 2)[1]))

    def _answer(self, method: bytes, path: bytes) -> None:
        if method != b"POST":
            self._reply(path)
            return
        Connection.made = next(Connection.generations) + 1
        self._write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        if path.startswith(b"/null/"):
            self._write(b"".join(self._events))
            return
        self._write_next(0, asyncio.get_running_loop().time())

    def _write_next(self, index: int, began: float) -> None:
        """The first token is due a gap after the request."""
        loop = asyncio.get_running_loop()
        if index > 0:
            self._write(self._events[index - 1])
        if index == len(self._events) - 1:
            self._write(self._events[index])
        elif self._transport is not None:
            due = began + (index + 1) * self._gap_s
            loop.call_at(due, self._write_next, index + 1, began)

    def _reply(self, path: bytes) -> None:
        reply = {"made": Connection.made, "model_id": _MODEL, "max_concurrent_requests": 128}
        body = json.dumps(reply).encode()
        self._write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (len(body), body)
        )

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def serve(tokens: int, gap_s: float) -> None:
    """Serve on a free port of this machine until the process is ended."""
    events = stream_of(tokens)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(events, gap_s), "127.0.0.1", 0, backlog=256
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
