"""The response cache as a step: from the store, from a call that is under way, or made."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

from django.db import Error as DatabaseFault

from apps.gateway.caching import policy, semantic, store
from apps.gateway.caching.flights import Flight, Found, Shelf, find_flight, start_flight
from apps.gateway.caching.keys import Keys, keys_of
from apps.gateway.caching.policy import Policy
from apps.gateway.caching.types import Asker, Cacheable, CacheUse, Codec, Made
from apps.gateway.errors import Limited
from apps.gateway.types import CacheNote, CacheResult, Caller
from apps.tenants.aio import in_scope

E = TypeVar("E")
logger = logging.getLogger(__name__)
# A store that does not answer within this is done without.
STORE_WITHIN_S = 2.0
# A tenant's policy as last seen, to guess the key by: the store says whether the guess was right.
_EPOCHS_KEPT = 10_000
_epochs: dict[uuid.UUID, int] = {}


async def through_cache(
    caller: Caller,
    cacheable: Cacheable,
    produce: Callable[[], AsyncGenerator[E, None]],
    codec: Codec[E],
    use: CacheUse,
) -> AsyncGenerator[E, None]:
    """The answer's events: replayed, shared with the call that makes them, or made now.

    `produce` runs in a task of its own, which lives as long as anybody listens. Its refusals
    (GatewayError) reach the one who asked first; the others then ask for themselves.
    """
    request = _Request(caller, cacheable, Asker(produce, codec, use))
    async with aclosing(await _answer(request)) as events:
        async for event in events:
            yield event


@dataclass
class _Request(Generic[E]):
    """One question on its way through the cache."""

    caller: Caller
    cacheable: Cacheable
    asker: Asker[E]
    began: float = field(default_factory=perf_counter)
    epoch: int = 0
    keys: Keys = field(default_factory=lambda: Keys(b"", b""))  # by the epoch
    compared: store.Compared | None = None  # the question, for others to be compared with

    @property
    def tenant_id(self) -> uuid.UUID:
        return self.caller.tenant_id

    def note(self, result: CacheResult, reason: str = "") -> None:
        self.asker.use.note = CacheNote(result, reason)

    def note_saved(self, result: CacheResult, cost_micros: int, total_ms: float) -> None:
        """Time was saved only as far as it did not pass in waiting."""
        passed_ms = (perf_counter() - self.began) * 1000
        self.asker.use.note = CacheNote(
            result, saved_micros=cost_micros, saved_ms=max(0.0, total_ms - passed_ms)
        )


async def _answer(request: _Request[E]) -> AsyncGenerator[E, None]:
    """Where the answer comes from."""
    reason = policy.bypass_reason(request.cacheable) or _unfit(request)
    if reason:
        return _without(request, CacheResult.BYPASSED, reason)
    try:
        async with asyncio.timeout(STORE_WITHIN_S):
            found, entry = await _find(request)
            if not found.enabled:
                return _without(request, CacheResult.BYPASSED, "opted_out")
            if entry is not None and (events := await _decoded(request, entry)) is not None:
                request.note_saved(CacheResult.HIT, entry.cost_micros, entry.total_ms)
                return _replayed(events)
    except (DatabaseFault, TimeoutError) as exc:
        logger.warning("the response cache cannot be read: %s", type(exc).__name__)
        return _without(request, CacheResult.ERROR, "")
    return await _similar(request, found) or _shared(request)


def _unfit(request: _Request[E]) -> str:
    """Also guesses the key: by the policy as it was when it was last seen."""
    epoch = _epochs.get(request.tenant_id, 0)
    try:
        request.epoch, request.keys = epoch, keys_of(request.tenant_id, epoch, request.cacheable)
    except (ValueError, TypeError, RecursionError):
        return "unfit"
    return ""


async def _find(request: _Request[E]) -> tuple[Policy, store.Entry | None]:
    """One query, and another where everything has been forgotten since the epoch was seen."""
    while True:
        found, entry = await in_scope(
            request.tenant_id, store.find, request.tenant_id, request.keys.entry
        )
        if found.epoch == request.epoch:
            return found, entry
        if len(_epochs) >= _EPOCHS_KEPT:
            _epochs.clear()
        request.epoch = _epochs[request.tenant_id] = found.epoch
        request.keys = keys_of(request.tenant_id, found.epoch, request.cacheable)


async def _decoded(request: _Request[E], entry: store.Entry) -> list[E] | None:
    """The events to replay; an entry that cannot be read is dropped."""
    try:
        return request.asker.codec.decode(entry.payload)
    except ValueError:
        logger.warning("cached response %s cannot be read and is dropped", entry.id)
        await in_scope(request.tenant_id, store.drop, request.tenant_id, entry.id)
        return None


async def _similar(request: _Request[E], found: Policy) -> AsyncGenerator[E, None] | None:
    """An answer to a question that means the same, where the tenant has chosen to have those."""
    if not (found.semantic and semantic.is_comparable(request.cacheable)):
        return None
    request.compared = await semantic.embedded(request.cacheable.question)
    if request.compared is None:
        request.note(CacheResult.MISS, "embedder_down")
        return None
    scope, threshold = request.keys.scope, found.semantic_threshold
    try:
        async with asyncio.timeout(STORE_WITHIN_S):
            match = await in_scope(
                request.tenant_id,
                semantic.nearest,
                request.tenant_id,
                scope,
                request.compared,
                threshold,
            )
            if match is None or (events := await _decoded(request, match.entry)) is None:
                return None
            # Before the first event: no answer is given that the audit does not show.
            await in_scope(
                request.tenant_id,
                semantic.record_hit,
                request.caller,
                request.compared.question,
                match,
            )
    except (DatabaseFault, TimeoutError) as exc:
        logger.warning("questions cannot be compared: %s", type(exc).__name__)
        return None
    request.note_saved(CacheResult.SEMANTIC, match.entry.cost_micros, match.entry.total_ms)
    request.asker.use.similarity = match.similarity
    return _replayed(events)


async def _shared(request: _Request[E]) -> AsyncGenerator[E, None]:
    """Made in a flight that whoever asks the same may join, or read from another's.

    Another's refusal is no refusal of ours: the flight is made anew, in the name of one who is
    left. Where a model server fails, that is tried once; then everybody asks for themselves, at
    the same time instead of one after the other.
    """
    failures = 0
    while failures < 2:
        flight = _board(request)
        if flight is None:
            break
        try:
            async with aclosing(flight.listen(request.asker)) as events:
                async for event in events:
                    yield event
        except Exception as exc:
            if flight.begun or flight.owner is request.asker:
                raise
            failures += not isinstance(exc, Limited)
            continue
        if flight.owner is not request.asker:
            request.note_saved(CacheResult.SHARED, *flight.saved)
        return
    async with aclosing(_without(request, CacheResult.MISS, "")) as events:
        async for event in events:
            yield event


def _board(request: _Request[E]) -> Flight[E] | None:
    reason = request.asker.use.note.reason
    flight: Flight[E] | None = find_flight(request.keys.entry)
    if flight is not None:
        request.note(CacheResult.SHARED)
        return flight
    request.note(CacheResult.MISS, reason)
    return start_flight(request.keys.entry, _shelf(request))


def _shelf(request: _Request[E]) -> Shelf[E]:
    """What the store does for a flight; its faults cost the entry, not the answer."""
    tenant_id, keys = request.tenant_id, request.keys

    async def find() -> Found[E] | None:
        try:
            _, entry = await in_scope(tenant_id, store.find, tenant_id, keys.entry)
            events = await _decoded(request, entry) if entry else None
        except DatabaseFault as exc:
            logger.warning("the response cache cannot be read: %s", type(exc).__name__)
            return None
        if entry is None or events is None:
            return None
        return Found(events, entry.cost_micros, entry.total_ms)

    async def put(made: Made) -> bool:
        payload = store.packed(made)
        if payload is None:
            return False
        row = (request.caller, request.epoch, keys, made, payload, request.compared)
        try:
            return await in_scope(tenant_id, store.put, *row)
        except DatabaseFault as exc:
            logger.warning("an answer could not be cached: %s", type(exc).__name__)
            return False

    return Shelf(find, put)


async def _without(
    request: _Request[E], result: CacheResult, reason: str
) -> AsyncGenerator[E, None]:
    """Made for this one alone."""
    request.note(result, reason)
    async with aclosing(request.asker.produce()) as events:
        async for event in events:
            yield event


async def _replayed(events: Sequence[E]) -> AsyncGenerator[E, None]:
    for event in events:
        yield event
