"""Answers as lists of words, calls that make them, and what was cached of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from apps.gateway.caching import Cacheable, CacheUse, Made, through_cache
from apps.gateway.types import CacheNote, Caller, Source
from apps.tenants.models import Tenant

ANSWER = ("The harbour", " opens", " at six.")
QUESTION = Cacheable("When does the harbour open?", {"model": "tgi", "collections": {"a": 1}})


def caller_of(tenant: Tenant | uuid.UUID, **fields: Any) -> Caller:
    tenant_id = tenant if isinstance(tenant, uuid.UUID) else tenant.id
    return replace(Caller(tenant_id, "UTC", Source.CHAT), **fields)


def asked(question: str, **changes: Any) -> Cacheable:
    return replace(QUESTION, question=question, **changes)


class Words:
    """A codec: the answer is its words. What is not complete is not kept."""

    def __init__(self, cost_micros: int = 70, total_ms: float = 60_000.0) -> None:
        self.cost_micros = cost_micros
        self.total_ms = total_ms

    def encode(self, events: Sequence[str]) -> Made | None:
        if not events or not events[-1].endswith("."):
            return None
        return Made({"words": list(events)}, self.cost_micros, self.total_ms)

    def decode(self, payload: Any) -> list[str]:
        if not isinstance(payload, dict) or "words" not in payload:
            raise ValueError("no answer")
        return list(payload["words"])


@dataclass
class Upstream:
    """Calls to a model: how many were begun, are open, and were closed before their end."""

    words: Sequence[str] = ANSWER
    begun: int = 0
    running: int = 0
    cut_off: int = 0
    failure: Exception | None = None
    fail_after: int = 0
    # Every event waits for it, from this one on.
    gate: asyncio.Event | None = None
    gate_from: int = 0
    notes: list[CacheNote] = field(default_factory=list)

    def __call__(self, use: CacheUse | None = None) -> Callable[[], AsyncGenerator[str, None]]:
        return lambda: self._stream(use)

    async def _stream(self, use: CacheUse | None) -> AsyncGenerator[str, None]:
        self.begun += 1
        self.running += 1
        if use is not None:
            self.notes.append(use.note)
        ended = False
        try:
            for at, word in enumerate(self.words):
                if self.gate is not None and at >= self.gate_from:
                    await self.gate.wait()
                await asyncio.sleep(0)
                if self.failure is not None and at == self.fail_after:
                    ended = True
                    raise self.failure
                yield word
            ended = True
        finally:
            self.running -= 1
            self.cut_off += not ended


@dataclass
class Asked:
    """What came of a question."""

    words: list[str] = field(default_factory=list)
    use: CacheUse = field(default_factory=CacheUse)
    error: Exception | None = None

    @property
    def note(self) -> CacheNote:
        return self.use.note

    @property
    def result(self) -> str:
        return str(self.use.note.result)


async def ask(
    tenant: Tenant | uuid.UUID,
    upstream: Upstream,
    cacheable: Cacheable = QUESTION,
    *,
    codec: Words | None = None,
    stop_after: int | None = None,
    caller: Caller | None = None,
) -> Asked:
    """Ask, and read to the end or until so many words have come; errors are kept."""
    came = Asked()
    events = through_cache(
        caller or caller_of(tenant), cacheable, upstream(came.use), codec or Words(), came.use
    )
    try:
        async with aclosing(events):
            async for word in events:
                came.words.append(word)
                if len(came.words) == stop_after:
                    break
    except Exception as exc:
        came.error = exc
    return came


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it is no event
            await asyncio.sleep(0.001)
