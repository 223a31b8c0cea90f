"""Hop: let the model write, and measure the first token apart from the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from time import perf_counter

from apps.chat.pipeline.types import Outcome
from apps.gateway import service as gateway
from apps.inference.types import Finished, GenerationRequest, TextDelta
from apps.telemetry.hops import Trace


async def generate(
    alias: str, request: GenerationRequest, outcome: Outcome, trace: Trace
) -> AsyncIterator[str]:
    """Yield the answer's text as it is written; what was used goes into `outcome`.

    Raises the generator's InferenceError. Closing the iterator frees the engine at once.
    """
    with trace.hop("generate") as hop:
        start = perf_counter()
        pieces = 0
        async with aclosing(gateway.stream(alias, request)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, TextDelta):
                    if not pieces:
                        hop.set(first_token_ms=(perf_counter() - start) * 1000)
                    pieces += 1
                    yield event.text
                elif isinstance(event, Finished):
                    _note_usage(event, outcome)
                    hop.set(
                        finish_reason=event.reason,
                        prompt_tokens=event.prompt_tokens,
                        completion_tokens=event.completion_tokens,
                    )


def _note_usage(finished: Finished, outcome: Outcome) -> None:
    outcome.prompt_tokens = finished.prompt_tokens
    outcome.completion_tokens = finished.completion_tokens
    outcome.tokens_estimated = finished.estimated
