"""A tap in front of a server: passes bytes on and writes down when text went by.

    python -m tests.bench.agreement.tap PORT       prints its own port

When its input ends it prints what went by, in order: of each answer of more than one piece of text
the milliseconds from the request's last bytes to the first piece, and between pieces. Whatever
else the machine does, a tool has to have seen what went by here.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import partial

from apps.capacity.load import timing

_TEXT = re.compile(rb'"content":"[^"]')
Told = list[tuple[float, float]]


class Passing:
    """Times of one answer."""

    def __init__(self) -> None:
        self.asked_s = self.first_s = self.last_s = 0.0
        self.pieces = 0

    def note(self, data: bytes, at: float) -> None:
        if found := len(_TEXT.findall(data)):
            self.first_s, self.last_s = self.first_s or at, at
            self.pieces += found

    def tell(self, told: Told) -> None:
        if self.pieces > 1:
            between = (self.last_s - self.first_s) * 1000 / (self.pieces - 1)
            told.append(((self.first_s - self.asked_s) * 1000, between))


async def _connection(
    port: int, told: Told, near: asyncio.StreamReader, back: asyncio.StreamWriter
) -> None:
    far, there = await asyncio.open_connection("127.0.0.1", port)
    passing = [Passing()]
    up = asyncio.create_task(_up(near, there, passing, told))
    clock = asyncio.get_running_loop().time
    while data := await far.read(1 << 16):
        back.write(data)
        passing[0].note(data, clock())
    passing[0].tell(told)
    up.cancel()
    back.close()
    there.close()


async def _up(
    near: asyncio.StreamReader, there: asyncio.StreamWriter, passing: list[Passing], told: Told
) -> None:
    """A request begins a new answer: connections are kept."""
    while data := await near.read(1 << 16):
        if data.startswith((b"POST ", b"GET ")):
            passing[0].tell(told)
            passing[0] = Passing()
        passing[0].asked_s = asyncio.get_running_loop().time()
        there.write(data)
    there.close()


async def _main() -> None:
    told: Told = []
    server = await asyncio.start_server(
        partial(_connection, int(sys.argv[1]), told), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    await asyncio.sleep(0.2)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    timing.run(_main())
