"""A server whose latencies are known: fixed, stalled at every tenth request, or paused at times.

    double = Double(first_s=0.3, gap_s=0.02, stall_every=10, stall_s=0.6)
    ... Answering(double.pacing) ...
    double.ttfts_s          what each request had to wait, by the double's own clock

    python -m tests.capacity.load.double '{"first_s": 0.3, "gap_s": 0.02}'

prints its port, and when its input ends how long it let each request of two tokens and more wait.

With `is_serial` requests are worked on one after another, as at a server that is full: whoever
comes while another stalls, waits for it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from functools import partial

from apps.capacity.load import timing
from apps.capacity.load.null_server import Answering

CALIBRATING = 2  # one-token requests that come first and show how words are counted


@dataclass
class Double:
    first_s: float  # from when it is worked on to its first token
    gap_s: float  # between tokens
    stall_every: int = 0  # every so many requests ...
    stall_s: float = 0.0  # ... one takes so much longer to its first token
    pause_every_s: float = 0.0  # at each whole multiple of this ...
    pause_s: float = 0.0  # ... nothing begins for so long
    is_serial: bool = False
    arrivals_s: list[float] = field(default_factory=list)
    ttfts_s: list[float] = field(default_factory=list)
    _free_at: float = 0.0
    _calibrated: int = 0

    def pacing(self, tokens: int, at: float) -> list[float]:
        """When each token of a request that came `at` is due."""
        if tokens == 1 and self._calibrated < CALIBRATING:
            self._calibrated += 1
            return [at + self.first_s]
        number = len(self.arrivals_s)
        begin = self._after_pause(max(at, self._free_at) if self.is_serial else at)
        stalls = self.stall_every and number % self.stall_every == self.stall_every - 1
        first = begin + self.first_s + (self.stall_s if stalls else 0.0)
        due = [first + self.gap_s * each for each in range(tokens)]
        self._free_at = due[-1]
        self.arrivals_s.append(at)
        self.ttfts_s.append(first - at)
        return due

    def _after_pause(self, at: float) -> float:
        if not self.pause_every_s:
            return at
        within = at % self.pause_every_s
        return at + self.pause_s - within if within < self.pause_s else at


class _Timed(Answering):
    """Writes down when it wrote: on a busy machine a double is late, too."""

    def __init__(self, double: Double, told: list[float]) -> None:
        super().__init__(double.pacing)
        self._told = told
        self._came = 0.0

    def _answer(self, head: bytes, body: bytes) -> None:
        self._came = self._loop.time()
        super()._answer(head, body)

    def _write_next(self, due: list[float], number: int, prompt: int) -> None:
        super()._write_next(due, number, prompt)
        if number == 0 and len(due) > 1:  # one token: the calibration
            self._told.append(self._loop.time() - self._came)


async def _main() -> None:
    double, told = Double(**json.loads(sys.argv[1])), list[float]()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(_Timed, double, told), "127.0.0.1", backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    timing.run(_main())
