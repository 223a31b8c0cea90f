"""Hop: let the model write, and measure the first token apart from the rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import perf_counter

from apps.chat.pipeline.assemble import Prompt
from apps.chat.pipeline.citations import split_sentences
from apps.chat.pipeline.prompts import STYLES
from apps.chat.pipeline.types import Outcome
from apps.gateway import service as gateway
from apps.inference.types import Finished, TextDelta
from apps.telemetry.hops import Hop, Trace

_SENTENCE_ENDS = (".", "!", "?", "\n")


async def generate(prompt: Prompt, outcome: Outcome, trace: Trace) -> AsyncGenerator[str, None]:
    """Yield the answer's text as it is written; what was used goes into `outcome`.

    Raises the generator's InferenceError. Closing the iterator frees the engine at once.
    """
    watch = STYLES[prompt.model.prompt].stops_when_repeating
    with trace.hop("generate") as hop:
        hop.set(model=prompt.model.alias)
        start = perf_counter()
        written = ""
        async with aclosing(gateway.stream(prompt.model.alias, prompt.request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    _estimate_usage(prompt, outcome)
                    if not written:
                        hop.set(first_token_ms=(perf_counter() - start) * 1000)
                    written += event.text
                    yield event.text
                    if watch and (kept := before_repeat(written)) is not None:
                        hop.set(finish_reason="repeating")
                        outcome.text = kept
                        return
                elif isinstance(event, Finished):
                    _note_usage(event, outcome, hop)


def _estimate_usage(prompt: Prompt, outcome: Outcome) -> None:
    """As far as it has come, for an answer that is cut off: servers send a piece a token."""
    outcome.prompt_tokens = prompt.tokens
    outcome.completion_tokens = (outcome.completion_tokens or 0) + 1
    outcome.tokens_estimated = True


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
