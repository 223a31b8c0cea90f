"""Hop: let the model write, and measure the first token apart from the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter

from apps.chat.pipeline.assemble import Prompt
from apps.chat.pipeline.citations import split_sentences
from apps.chat.pipeline.prompts import STYLES
from apps.chat.pipeline.seam import Seam
from apps.chat.pipeline.types import Outcome
from apps.gateway.admission import Budget
from apps.gateway.calling import CallReport
from apps.gateway.metering import metered
from apps.gateway.types import CacheNote
from apps.inference.types import Finished, TextDelta
from apps.telemetry.hops import Hop, Trace

_SENTENCE_ENDS = (".", "!", "?", "\n")


async def generate(
    prompt: Prompt,
    outcome: Outcome,
    trace: Trace,
    budget: Budget,
    cache: CacheNote,
    beginning: str = "",
) -> AsyncGenerator[str, None]:
    """Yield the answer's text as it is written; what was used goes into `outcome` and the ledger.

    `beginning` is what the answer says already, and what is yielded goes on from there.
    Raises an InferenceError, or a GatewayError where no upstream can take the call. Closing the
    iterator frees the engine at once.
    """
    watch = STYLES[prompt.model.prompt].stops_when_repeating
    with trace.hop("generate") as hop:
        hop.set(model=prompt.model.alias)
        start = perf_counter()
        written, seam = beginning, Seam(beginning)
        report = CallReport()
        call = metered(
            budget,
            prompt.model,
            prompt.request,
            prompt_tokens=prompt.tokens,
            cache=cache,
            report=report,
        )
        try:
            async with aclosing(call) as events:
                async for event in events:
                    if isinstance(event, TextDelta):
                        if "first_token_ms" not in hop.attributes:
                            hop.set(first_token_ms=(perf_counter() - start) * 1000)
                        if not (text := seam.join(event.text)):
                            continue
                        written += text
                        yield text
                        if watch and (kept := before_repeat(written)) is not None:
                            hop.set(finish_reason="repeating")
                            outcome.text = kept
                            return
                    elif isinstance(event, Finished):
                        _note_usage(event, outcome, hop)
            if rest := seam.rest():
                yield rest
        finally:
            hop.wait_ms = report.queue_ms
            hop.set(upstream=report.upstream, attempts=report.attempts)


def before_repeat(text: str) -> str | None:
    """`text` up to the sentence it has just repeated (a small model loops); None if it has not."""
    if not text.rstrip(" ").endswith(_SENTENCE_ENDS):
        return None
    spans = list(split_sentences(text))
    said = [text[start:end].strip() for start, end in spans]
    if len(said) > 1 and said[-1] in said[:-1]:
        return text[: spans[-1][0]].rstrip()
    return None


def _note_usage(finished: Finished, outcome: Outcome, hop: Hop) -> None:
    outcome.prompt_tokens = finished.prompt_tokens
    outcome.completion_tokens = finished.completion_tokens
    outcome.tokens_estimated = finished.estimated
    hop.set(
        finish_reason=finished.reason,
        prompt_tokens=finished.prompt_tokens,
        completion_tokens=finished.completion_tokens,
    )
