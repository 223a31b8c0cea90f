"""The pipeline: one question, top to bottom.

Every hop is measured in the trace. A hop that is down degrades the answer and says so; only a
fault of the request itself raises.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from django.conf import settings

from apps.chat.pipeline import cache, fallback
from apps.chat.pipeline.assemble import Prompt, assemble
from apps.chat.pipeline.citations import match_sentences
from apps.chat.pipeline.generate import generate
from apps.chat.pipeline.prompts import NOT_FOUND_WORDS
from apps.chat.pipeline.types import (
    AnswerRequest,
    NoticeGiven,
    Outcome,
    PipelineEvent,
    SourcesFound,
    TextWritten,
)
from apps.gateway import service as gateway
from apps.gateway.errors import GatewayError
from apps.inference.errors import InferenceError
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Notice
from apps.telemetry.hops import Trace
from apps.tenants.aio import in_thread

logger = logging.getLogger(__name__)

RETRIEVED_PASSAGES = 8
GENERATOR_DOWN = Notice(
    "generator_down",
    "The language model cannot be reached, so the best passages are quoted as they stand.",
)
GENERATOR_BROKE_OFF = Notice(
    "generator_broke_off",
    "The language model broke off before it was done; what it had written is kept.",
)


async def answer_question(
    request: AnswerRequest, trace: Trace, outcome: Outcome
) -> AsyncGenerator[PipelineEvent, None]:
    """Answer one question.

    Yields SourcesFound once, notices as they arise, and text as it is written. The caller makes
    `outcome` and keeps it: after a stop it holds what there was until then.
    """
    cache.look_up(request, trace)
    async for event in _retrieve(request, trace, outcome):
        yield event
    if not _worth_generating(outcome):
        _skip_generation(trace)
        yield _say_not_found(outcome)
    else:
        async with aclosing(_write(request, trace, outcome)) as events:
            async for event in events:
                yield event


async def _retrieve(
    request: AnswerRequest, trace: Trace, outcome: Outcome
) -> AsyncGenerator[PipelineEvent, None]:
    """Hops embed, search and rerank, in one thread: each opens its own short scope."""
    found = await in_thread(
        retrieve,
        tenant_id=request.tenant_id,
        question=request.question,
        collection_ids=request.collection_ids,
        trace=trace,
        limit=RETRIEVED_PASSAGES,
    )
    outcome.passages = found.passages
    for notice in found.notices:
        outcome.notices.append(notice)
        yield NoticeGiven(notice)
    yield SourcesFound(found.passages)


def _worth_generating(outcome: Outcome) -> bool:
    best = max((passage.relevance for passage in outcome.passages), default=0.0)
    return bool(outcome.passages) and best >= settings.NOT_FOUND_BELOW


def _skip_generation(trace: Trace) -> None:
    for name in ("assemble", "generate"):
        with trace.hop(name) as hop:
            hop.end_as("skipped")
            hop.set(reason="no relevant passage")


def _say_not_found(outcome: Outcome) -> TextWritten:
    outcome.kind = "not_found"
    outcome.text = fallback.NOT_FOUND_TEXT if outcome.passages else fallback.NO_DOCUMENTS_TEXT
    return TextWritten(outcome.text)


async def _write(
    request: AnswerRequest, trace: Trace, outcome: Outcome
) -> AsyncGenerator[PipelineEvent, None]:
    """Hops assemble and generate; falls back to quoting when no model can be reached."""
    try:
        prompt = await _assemble(request, trace, outcome)
        async with aclosing(_generate(prompt, trace, outcome)) as events:
            async for event in events:
                yield event
    except (InferenceError, GatewayError) as exc:
        # The code only: an upstream's message may quote the prompt.
        logger.warning("generation failed: %s", exc.code)
        notice = GENERATOR_BROKE_OFF if outcome.text else GENERATOR_DOWN
        outcome.notices.append(notice)
        yield NoticeGiven(notice)
        if outcome.text:
            outcome.interrupted = True
        else:
            yield _quote(outcome)
    finally:
        # Also after a stop: what was written so far keeps its citations.
        if outcome.kind == "generated":
            _earn_citations(outcome)


async def _assemble(request: AnswerRequest, trace: Trace, outcome: Outcome) -> Prompt:
    with trace.hop("assemble") as hop:
        model = request.model or gateway.find_model("")
        prompt = await assemble(
            question=request.question,
            passages=outcome.passages,
            history=request.history,
            model=model,
            count_tokens=functools.partial(gateway.count_tokens, model.alias),
        )
        outcome.given = len(prompt.passages)
        hop.set(
            passages=len(prompt.passages),
            prompt_tokens=prompt.tokens,
        )
        return prompt


async def _generate(
    prompt: Prompt, trace: Trace, outcome: Outcome
) -> AsyncGenerator[PipelineEvent, None]:
    async with aclosing(generate(prompt, outcome, trace)) as pieces:
        async for text in pieces:
            outcome.text += text
            yield TextWritten(text)


def _quote(outcome: Outcome) -> TextWritten:
    outcome.kind = "quoted"
    outcome.text, outcome.sentences = fallback.quote_passages(outcome.passages)
    return TextWritten(outcome.text)


def _earn_citations(outcome: Outcome) -> None:
    if outcome.text.strip().rstrip(".").endswith(NOT_FOUND_WORDS.rstrip(".")):
        outcome.kind = "not_found"
        return
    outcome.sentences = match_sentences(outcome.text, outcome.passages[: outcome.given])
