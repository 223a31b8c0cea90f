"""A call to a model under a budget: events pass through, and however it ends it is booked once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal

from apps.gateway.admission import Budget
from apps.gateway.calling import CallReport, generate
from apps.gateway.errors import GatewayError
from apps.gateway.spans import export_call
from apps.gateway.types import CacheNote, Call, Model, Outcome, Usage
from apps.inference.errors import InferenceError, TimedOut
from apps.inference.generators.tokens import estimate_tokens, prompt_text, template_tokens
from apps.inference.types import Finished, GenerationEvent, GenerationRequest
from apps.telemetry.trace_context import child_of

Hop = Literal["generate", "rewrite", "title"]


def prompt_estimate(request: GenerationRequest) -> int:
    """An upper estimate of the prompt's tokens."""
    return template_tokens(request.turns) + estimate_tokens(prompt_text(request))


@dataclass
class Meter:
    """What a call has used so far."""

    hop: Hop
    model: str
    prompt_tokens: int  # estimated, until the upstream tells
    cache: CacheNote
    report: CallReport
    began: float = field(default_factory=perf_counter)
    first_token_ms: float | None = None
    pieces: int = 0
    usage: Usage | None = None  # as reported in the end
    outcome: Outcome | None = None
    error_code: str = ""

    def see(self, event: GenerationEvent) -> None:
        if isinstance(event, Finished):
            self.outcome = Outcome.COMPLETE
            self.usage = Usage(
                event.prompt_tokens, event.cached_tokens, event.completion_tokens, event.estimated
            )
            return
        if self.first_token_ms is None:
            self.first_token_ms = self._elapsed_ms()
        self.pieces += 1

    def lost(self) -> Call | None:
        """The call as it stands, should the process die; nothing before the first token."""
        return self.call(Outcome.LOST) if self.pieces else None

    def failed(self, exc: Exception) -> None:
        self.outcome = Outcome.TIMED_OUT if isinstance(exc, TimedOut) else Outcome.FAILED
        self.error_code = str(getattr(exc, "code", type(exc).__name__))

    def call(self, broken_off_as: Outcome) -> Call:
        """The call as it stands; broken off unless it has ended by itself."""
        outcome = self.outcome or broken_off_as
        return Call(
            hop=self.hop,
            model=self.model,
            upstream=self.report.upstream,
            upstream_model=self.report.upstream_model,
            usage=self.usage or self._estimate(outcome),
            cache=self.cache,
            queue_ms=self.report.queue_ms,
            first_token_ms=self.first_token_ms,
            total_ms=self._elapsed_ms(),
            attempts=max(1, self.report.attempts),
            outcome=outcome,
            error_code=self.error_code,
        )

    def _estimate(self, outcome: Outcome) -> Usage:
        # Servers send a piece a token. Before the first, a failure has cost nothing as far as
        # anybody can tell; a call that was broken off had its prompt read.
        reached = bool(self.report.upstream)
        failed_early = outcome in (Outcome.FAILED, Outcome.TIMED_OUT) and not self.pieces
        if not reached or failed_early:
            return Usage(estimated=True)
        return Usage(self.prompt_tokens, 0, self.pieces, estimated=True)

    def _elapsed_ms(self) -> float:
        return (perf_counter() - self.began) * 1000


async def metered(
    budget: Budget,
    model: Model,
    request: GenerationRequest,
    *,
    hop: Hop = "generate",
    prompt_tokens: int | None = None,
    cache: CacheNote | None = None,
    report: CallReport | None = None,
) -> AsyncGenerator[GenerationEvent, None]:
    """The events of one call; a ledger row when it has ended, whichever way.

    `prompt_tokens`: where the caller has counted them. `report` is filled as it goes. Raises what
    `calling.generate` raises.
    """
    caller = budget.admission.caller
    place = child_of(caller.traceparent)
    if place:
        request = replace(request, traceparent=place)
    counted = prompt_estimate(request) if prompt_tokens is None else prompt_tokens
    meter = Meter(hop, model.alias, counted, cache or CacheNote(), report or CallReport())
    budget.in_flight = meter.lost
    try:
        async with aclosing(generate(model, request, meter.report)) as events:
            async for event in events:
                meter.see(event)
                yield event
    except (InferenceError, GatewayError) as exc:
        meter.failed(exc)
        raise
    finally:
        call = meter.call(budget.admission.broken_off_as)
        export_call(caller, call, place)
        # Also when it is cancelled: what was used must be booked.
        await asyncio.shield(budget.settle(call))
