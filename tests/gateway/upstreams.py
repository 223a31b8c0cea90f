"""Models over doubles, for tests of routing and failover."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from apps.gateway.calling import CallReport, generate
from apps.gateway.calling.slots import leases_key
from apps.gateway.redis import client
from apps.gateway.types import Model, Route, Upstream
from apps.inference.types import ChatTurn, Finished, GenerationRequest, TextDelta

REQUEST = GenerationRequest((ChatTurn("user", "What is the capital of France?"),), max_tokens=50)
NOBODY = "http://127.0.0.1:9"  # discard: nothing listens


def upstream(name: str, url: str, **bounds: object) -> Upstream:
    return Upstream(name=name, kind="tgi", url=url, **bounds)  # type: ignore[arg-type]


def model(*upstreams: Upstream, weights: tuple[int, ...] = ()) -> Model:
    """A chat model over them all."""
    shares = weights or (1,) * len(upstreams)
    return Model(
        alias="large",
        label="Large",
        context_tokens=2048,
        max_tokens=320,
        passages=4,
        prompt="instruct",
        routes=tuple(Route(u, "", w) for u, w in zip(upstreams, shares, strict=True)),
    )


async def answer(at: Model, report: CallReport | None = None) -> tuple[str, Finished]:
    """The whole text, and the last event."""
    written = ""
    async with aclosing(generate(at, REQUEST, report or CallReport())) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                written += event.text
    assert isinstance(event, Finished)
    return written, event


async def held(name: str) -> int:
    """Places taken at an upstream."""
    return int(await client().zcard(leases_key(name)))


async def until(condition: Callable[[], AsyncIterator[bool] | object], within_s: float = 1) -> bool:
    """Whether `condition()`, awaited where it is a coroutine, became true in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while loop.time() < deadline:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return True
        await asyncio.sleep(0.005)
    return False
