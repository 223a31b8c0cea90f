"""A model server that writes into each token when it was sent, by the clock all processes share.

    python -m tests.bench.chat.upstream TOKENS GAP_MS      prints its port

Each token is due at a time of its own after the request came, as in the gateway bench's server.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time

from tests.bench.gateway.upstream import Connection, stream_of

# A sentence, and a paragraph: what a reader's page and the citations have to work on.
_SENTENCE, _PARAGRAPH = 20, 60
STAMP = re.compile(r"@(\d+\.\d)")
_PLACE = b" token%d"


class Stamping(Connection):
    """Tokens say when they were sent."""

    def _write_next(self, index: int, began: float) -> None:
        if 0 < index < len(self._events):
            self._events[index - 1] = _stamped(index)
        super()._write_next(index, began)


def _stamped(index: int) -> bytes:
    """The `index`th token from 1; its text is `@` and milliseconds, always as long."""
    text = f" @{time.monotonic() * 1000:.1f}"
    if index % _PARAGRAPH == 0:
        text += ".\\n\\n"
    elif index % _SENTENCE == 0:
        text += "."
    return _chunk(text)


def _chunk(text: str) -> bytes:
    body = _HEAD + text.encode() + _TAIL
    return b"%x\r\n%b\r\n" % (len(body), body)


_one = stream_of(2)[0].partition(b"\r\n")[2][:-2]
_HEAD, _, _TAIL = _one.partition(_PLACE % 0)


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
