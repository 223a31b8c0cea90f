"""A model server that writes into each token when it was sent, by the clock all processes share.

    python -m tests.bench.chat.upstream TOKENS GAP_MS      prints its port

Each token is due at a time of its own after the request came, as in the gateway bench's server.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time

from tests.bench.gateway.upstream import WORD, Connection, stream_of

# A sentence, and a paragraph: what a reader's page and the citations have to work on.
_SENTENCE, _PARAGRAPH = 20, 60
STAMP = re.compile(r"@(\d+\.\d)")


class Stamping(Connection):
    """Tokens say when they were sent."""

    def _answer(self, method: bytes, path: bytes) -> None:
        if path == b"/tokenize":
            self._write(_COUNTED)
        else:
            super()._answer(method, path)

    def _write_next(self, index: int, began: float) -> None:
        if 0 < index < len(self._events):
            is_last = index == len(self._events) - 1
            self._events[index - 1] = _stamped(index, _LAST if is_last else _ANY)
        super()._write_next(index, began)


def _stamped(index: int, around: tuple[bytes, bytes]) -> bytes:
    """The `index`th token from 1; its text is `@` and milliseconds, always as long."""
    text = f" @{time.monotonic() * 1000:.1f}"
    if index % _PARAGRAPH == 0:
        text += ".\\n\\n"
    elif index % _SENTENCE == 0:
        text += "."
    head, tail = around
    body = head + text.encode() + tail
    return b"%x\r\n%b\r\n" % (len(body), body)


def _around(token: bytes) -> tuple[bytes, bytes]:
    """The event of a token, without its text."""
    head, _, tail = token.partition(b"\r\n")[2][:-2].partition(f"{WORD}0".encode())
    return head, tail


def _counted(tokens: int) -> bytes:
    """The reply of `/tokenize` to a passage: as many for each, for only their number is asked."""
    listed = [{"id": n, "text": "t", "start": n, "stop": n + 1} for n in range(tokens)]
    body = json.dumps(listed).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


_COUNTED = _counted(200)
_ANY, _LAST = _around(stream_of(2)[0]), _around(stream_of(1)[0])


async def serve(tokens: int, gap_s: float) -> None:
    """Serve on a free port of this machine until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Stamping(stream_of(tokens), gap_s), "127.0.0.1", 0, backlog=512
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
