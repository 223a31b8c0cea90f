"""The same streams through httpx with apps.inference.connections beneath it, timed as they come."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from itertools import pairwise
from time import monotonic

import httpx
import numpy as np
import orjson

from apps.inference.generators.sse import EventDecoder
from apps.inference.transport import Server, open_stream

Told = tuple[int, float, tuple[float, ...], float]


def through_httpx(streams: int, seconds: float, tokens: int, pace_ms: float) -> Told:
    """Requests done, CPU of a core, (TTFT p50, p99, gap p99) in ms, CPU seconds a token."""
    command = (sys.executable, "-m", "apps.capacity.load.null_server", str(pace_ms))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as null:
        assert null.stdout is not None
        url = f"http://127.0.0.1:{int(null.stdout.readline())}/v1"
        told = asyncio.run(_measured(url, streams, seconds, tokens))
        null.kill()
    return told


async def _measured(url: str, streams: int, seconds: float, tokens: int) -> Told:
    server, pieces = Server("null", url), []
    await _one(server, tokens)
    began, cpu = monotonic(), _cpu_s()

    async def one_after_another() -> None:
        while monotonic() < began + seconds:
            pieces.append(await _one(server, tokens))

    await asyncio.gather(*(one_after_another() for _ in range(streams)))
    cpu, elapsed = _cpu_s() - cpu, monotonic() - began
    firsts = np.percentile([(each[1] - each[0]) * 1000 for each in pieces], [50, 99])
    gaps = [(b - a) * 1000 for each in pieces for a, b in pairwise(each[1:])]
    times = (*firsts.tolist(), float(np.percentile(gaps, 99)))
    return len(pieces), cpu / elapsed, times, cpu / (tokens * len(pieces))


async def _one(server: Server, tokens: int) -> list[float]:
    """When it was sent, and when each piece of text was there."""
    body = {"max_tokens": tokens, "messages": [{"role": "user", "content": "word " * 180}]}
    times, decoder = [monotonic()], EventDecoder()
    async with open_stream(server, "POST", f"{server.url}/chat/completions", body=body) as reply:
        times += await _times(reply, decoder)
    return times


async def _times(reply: httpx.Response, decoder: EventDecoder) -> list[float]:
    times = []
    async for data in reply.aiter_bytes():
        at = monotonic()
        for event in decoder.feed(data):
            choices = event.data != "[DONE]" and orjson.loads(event.data).get("choices")
            if choices and choices[0]["delta"].get("content"):
                times.append(at)
    return times


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
