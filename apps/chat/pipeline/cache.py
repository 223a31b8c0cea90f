"""Hop cache: the same question, by the same people's documents, is answered again at once.

What an answer depends on is its scope: the model and how it is asked, the conversation before,
the collections with their versions, how they are searched. A new document makes another scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter
from typing import Any

from apps.chat.pipeline import codec
from apps.chat.pipeline.making import make_answer
from apps.chat.pipeline.types import AnswerRequest, Outcome, PipelineEvent
from apps.documents.selectors import collection_versions
from apps.gateway.admission import Admission
from apps.gateway.caching import Cacheable, CacheUse, through_cache
from apps.gateway.types import CacheResult, Call
from apps.gateway.types import Outcome as CallOutcome
from apps.retrieval.fingerprint import answer_fingerprint
from apps.telemetry.hops import Hop, Trace
from apps.tenants.aio import in_scope

# Raised when answers are made in another way: entries of before are of no use then.
PIPELINE_VERSION = 1
FOUND = (CacheResult.HIT, CacheResult.SEMANTIC, CacheResult.SHARED)


def skip(trace: Trace) -> None:
    """Record that no cache was asked."""
    with trace.hop("cache") as hop:
        hop.end_as("skipped")
        hop.set(result="none")


async def answers(
    request: AnswerRequest, trace: Trace, outcome: Outcome, admission: Admission
) -> AsyncGenerator[PipelineEvent, None]:
    """The answer's events: from the cache, from an identical question's answer, or made now."""
    began = perf_counter()
    use = CacheUse()
    looking = _Looking(trace, use)
    store = codec.AnswerCodec(began)

    def produce() -> AsyncGenerator[PipelineEvent, None]:
        looking.end()
        return store.timed(make_answer(request, trace, admission, use))

    first_ms: float | None = None
    ended = False
    try:
        cacheable = await _cacheable(request)
        events = through_cache(admission.caller, cacheable, produce, store, use)
        async with aclosing(events) as opened:
            async for event in opened:
                if first_ms is None:
                    first_ms = (perf_counter() - began) * 1000
                    looking.end()
                    outcome.cache = str(use.note.result) if use.note.result in FOUND else ""
                yield event
        ended = True
    finally:
        looking.end()
        if use.note.result in FOUND:
            call = Call(
                hop="generate",
                model=request.model.alias if request.model else "",
                cache=use.note,
                first_token_ms=first_ms,
                total_ms=(perf_counter() - began) * 1000,
                outcome=CallOutcome.COMPLETE if ended else admission.broken_off_as,
            )
            await asyncio.shield(admission.book(call))


class _Looking:
    """The hop, which lasts until the cache has an event or says that there is none."""

    def __init__(self, trace: Trace, use: CacheUse) -> None:
        self._use = use
        self._context = trace.hop("cache")
        self._hop: Hop | None = self._context.__enter__()

    def end(self) -> None:
        """Say what came of it, once."""
        if self._hop is None:
            return
        hop, self._hop = self._hop, None
        note = self._use.note
        hop.set(result=str(note.result))
        if note.reason:
            hop.set(reason=note.reason)
        if self._use.similarity is not None:
            hop.set(similarity=self._use.similarity)
        if note.result in FOUND:
            hop.end_as("cached")
        elif note.result == CacheResult.ERROR:
            hop.end_as("degraded", "cache_down")
        elif note.result == CacheResult.BYPASSED:
            hop.end_as("skipped")
        self._context.__exit__(None, None, None)


async def _cacheable(request: AnswerRequest) -> Cacheable:
    if request.beginning is not None:
        return Cacheable(request.question, {}, bypass="going_on")
    if request.anew:
        return Cacheable(request.question, {}, bypass="asked_again")
    return await in_scope(request.tenant_id, _scoped, request)


def _scoped(request: AnswerRequest) -> Cacheable:
    model = request.model
    versions = collection_versions(request.tenant_id, request.collection_ids)
    scope: dict[str, Any] = {
        "kind": "rag",
        "pipeline": PIPELINE_VERSION,
        "model": [model.alias, model.prompt, model.context_tokens, model.max_tokens, model.passages]
        if model
        else None,
        "history": [[turn.role, turn.content] for turn in request.history],
        "before": [[each.question, each.answer] for each in request.before],
        "collections": sorted([str(key), version] for key, version in versions.items()),
        "search": answer_fingerprint(request.tenant_id),
    }
    alone = not request.history and not request.before
    return Cacheable(request.question, scope, comparable=alone)
