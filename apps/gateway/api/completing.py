"""One chat completion's way through the gateway: cache, then reservation, then the model.

    admitted → through_cache → (on a miss) reserved → metered → upstream

The request has been admitted by whoever calls this.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import orjson

from apps.gateway.admission import Admission
from apps.gateway.api.asking import prompt_estimate
from apps.gateway.caching import Cacheable, CacheUse, Made, through_cache
from apps.gateway.calling.catalogue import Catalogue
from apps.gateway.metering import metered
from apps.gateway.service import worst_case
from apps.gateway.spans import export_step
from apps.gateway.types import CacheResult, Call, Model, Outcome
from apps.inference.types import (
    Finished,
    GenerationEvent,
    GenerationRequest,
    ReasoningDelta,
    TextDelta,
)

CACHEABLE_CHARS_MAX = 200_000
# Estimating takes 5 ms of CPU for so many: longer ones are done beside the event loop.
_ESTIMATED_AT_ONCE_CHARS = 100_000
# An answer that nobody paid for in this request.
_GIVEN = {CacheResult.HIT, CacheResult.SEMANTIC, CacheResult.SHARED}
_TEXTS = (TextDelta, ReasoningDelta)
_KINDS: dict[str, type[TextDelta] | type[ReasoningDelta]] = {kind.__name__: kind for kind in _TEXTS}


@dataclass
class Completion:
    """One completion as it goes; `use` and `cost_micros` are known once it has ended."""

    admission: Admission
    catalogue: Catalogue
    model: Model
    request: GenerationRequest
    opted_out: bool = False
    use: CacheUse = field(default_factory=CacheUse)
    cost_micros: int = 0
    _began: float = field(default_factory=perf_counter)

    async def events(self) -> AsyncGenerator[GenerationEvent, None]:
        """The answer, from the cache or made now; closing the iterator ends the call.

        Raises GatewayError and InferenceError.
        """
        caller = self.admission.caller
        answer = through_cache(caller, self._cacheable(), self._make, self, self.use)
        first_ms: float | None = None
        ended_as = None
        try:
            async with aclosing(answer) as events:
                async for event in events:
                    if first_ms is None:
                        first_ms = self._elapsed_ms()
                        self._trace_cache(first_ms, given=True)
                    yield event
            ended_as = Outcome.COMPLETE
        finally:
            if self.use.note.result in _GIVEN:
                await self._book(first_ms, ended_as or self.admission.broken_off_as)

    async def _make(self) -> AsyncGenerator[GenerationEvent, None]:
        """A call to the model, under a reservation."""
        self._trace_cache(self._elapsed_ms(), given=False)
        prompt_tokens = await _estimated(self.request)
        worst = worst_case(self.catalogue, self.model, (prompt_tokens, self.request.max_tokens))
        async with self.admission.reserved(worst) as budget:
            call = metered(
                budget,
                self.model,
                self.request,
                prompt_tokens=prompt_tokens,
                cache=self.use.note,
            )
            try:
                async with aclosing(call) as events:
                    async for event in events:
                        yield event
            finally:
                self.cost_micros = budget.spent_micros

    def _trace_cache(self, ms: float, *, given: bool) -> None:
        """A span of the cache: until it gave an answer, or until one is made."""
        note = self.use.note
        if (note.result in _GIVEN) == given:
            figures = {"cache": note.result.value, "reason": note.reason}
            export_step(self.admission.caller, "cache", ms, **figures)

    async def _book(self, first_ms: float | None, outcome: Outcome) -> None:
        call = Call(
            hop="generate",
            model=self.model.alias,
            cache=self.use.note,
            first_token_ms=first_ms,
            total_ms=self._elapsed_ms(),
            outcome=outcome,
        )
        await self.admission.book(call)

    def _elapsed_ms(self) -> float:
        return (perf_counter() - self._began) * 1000

    def _cacheable(self) -> Cacheable:
        request = self.request
        question = orjson.dumps([[t.role, t.content, dict(t.extra)] for t in request.turns])
        return Cacheable(
            question=question.decode(),
            scope={
                "route": "chat.completions",
                "model": self.model.alias,
                "max_tokens": request.max_tokens,
                "temperature": request.temperature,
                "stop": list(request.stop),
                "seed": request.seed,
                "options": dict(request.options),
            },
            bypass=self._bypass(len(question)),
        )

    def _bypass(self, size: int) -> str:
        """Why this answer is not to be kept or given again; "" where it may."""
        if self.opted_out:
            return "opted out"
        if self.request.temperature > 0 and self.request.seed is None:
            return "sampled"
        if self.request.options.get("tools"):
            return "tools"
        return "too large" if size > CACHEABLE_CHARS_MAX else ""

    # --- what the cache keeps of an answer (its Codec) ---

    def encode(self, events: Sequence[GenerationEvent]) -> Made | None:
        """None for an answer that was cut off, and for what is no text."""
        last = events[-1] if events else None
        if not isinstance(last, Finished) or last.reason != "stop":
            return None
        pieces = events[:-1]
        texts = [[type(p).__name__, p.text] for p in pieces if isinstance(p, _TEXTS)]
        if len(texts) != len(pieces):
            return None
        used = [last.prompt_tokens, last.completion_tokens, last.estimated, last.cached_tokens]
        return Made({"texts": texts, "used": used}, self.cost_micros, self._elapsed_ms())

    def decode(self, payload: Any) -> list[GenerationEvent]:
        """The same pieces again, and the usage that the answer had when it was made."""
        try:
            texts = [_KINDS[kind](str(text)) for kind, text in payload["texts"]]
            return [*texts, Finished("stop", *payload["used"])]
        except (KeyError, TypeError, ValueError) as exc:
            raise ValueError("not an answer of this route") from exc


async def _estimated(request: GenerationRequest) -> int:
    if sum(len(turn.content) for turn in request.turns) <= _ESTIMATED_AT_ONCE_CHARS:
        return prompt_estimate(request)
    return await asyncio.to_thread(prompt_estimate, request)
