"""The pipeline: one question, top to bottom.

Every hop is measured in the trace. A hop that is down degrades the answer and says so; only a
fault of the request itself raises.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from apps.chat.pipeline import cache, fallback
from apps.chat.pipeline.assemble import Prompt, assemble
from apps.chat.pipeline.citations import match_sentences
from apps.chat.pipeline.generate import generate
from apps.chat.pipeline.prompts import NOT_FOUND_WORDS, STYLES
from apps.chat.pipeline.rewrite import rewrite
from apps.chat.pipeline.types import (
    AnswerRequest,
    NoticeGiven,
    Outcome,
    PipelineEvent,
    QuestionRewritten,
    SourcesFound,
    TextWritten,
)
from apps.gateway import service as gateway
from apps.gateway.errors import GatewayError
from apps.gateway.types import Model
from apps.inference.errors import InferenceError
from apps.retrieval.context import Neighbour, read_neighbours
from apps.retrieval.options import options_for
from apps.retrieval.pipeline import retrieve
from apps.retrieval.types import Notice, Retrieval
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

    Yields QuestionRewritten where a follow-up was made to stand alone, SourcesFound once, notices
    as they arise, and text as it is written. The caller makes
    `outcome` and keeps it: after a stop it holds what there was until then.
    """
    cache.look_up(request, trace)
    async for event in _rewrite(request, trace, outcome):
        yield event
    question = outcome.searched_as or request.question
    found, not_found_below = await in_thread(_search, request, question, trace)
    outcome.passages = found.passages
    for notice in found.notices:
        yield _note(outcome, notice)
    yield SourcesFound(found.passages)
    best = max((passage.relevance for passage in found.passages), default=0.0)
    if not found.passages or best < not_found_below:
        _skip_generation(trace)
        yield _say_not_found(outcome)
    else:
        async with aclosing(_write(request, trace, outcome)) as events:
            async for event in events:
                yield event


async def _rewrite(
    request: AnswerRequest, trace: Trace, outcome: Outcome
) -> AsyncGenerator[PipelineEvent, None]:
    standalone = await rewrite(request, trace)
    outcome.searched_as = standalone.text if standalone.is_changed else ""
    if standalone.is_changed:
        yield QuestionRewritten(standalone.text)
    if standalone.notice is not None:
        yield _note(outcome, standalone.notice)


def _search(request: AnswerRequest, question: str, trace: Trace) -> tuple[Retrieval, float]:
    """Hops embed, search and rerank, in one thread, and the relevance below which to abstain."""
    options = options_for(request.tenant_id)
    found = retrieve(
        tenant_id=request.tenant_id,
        question=question,
        collection_ids=request.collection_ids,
        trace=trace,
        limit=RETRIEVED_PASSAGES,
        options=options,
    )
    return found, options.not_found_below


def _note(outcome: Outcome, notice: Notice) -> NoticeGiven:
    outcome.notices.append(notice)
    return NoticeGiven(notice)


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
        yield _note(outcome, notice)
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
            question=_question_for(model, request, outcome),
            passages=outcome.passages,
            history=request.history,
            model=model,
            count_tokens=functools.partial(gateway.count_tokens, model.alias),
            neighbours=await _neighbours(model, request, outcome),
        )
        outcome.given, outcome.widened = len(prompt.passages), prompt.widened
        hop.set(
            passages=len(prompt.passages),
            widened=sum(a is not b for a, b in zip(prompt.passages, prompt.widened, strict=True)),
            prompt_tokens=prompt.tokens,
        )
        return prompt


async def _neighbours(model: Model, request: AnswerRequest, outcome: Outcome) -> list[Neighbour]:
    """What stands around the passages, for a model that is shown whole ones."""
    if STYLES[model.prompt].excerpt_chars:
        return []
    passages = outcome.passages[: model.passages]
    return await in_thread(read_neighbours, tenant_id=request.tenant_id, passages=passages)


def _question_for(model: Model, request: AnswerRequest, outcome: Outcome) -> str:
    """As it was asked where the model sees what it was asked after; else as it was searched for.

    A person's own words say more than a rewrite of them, but only next to the conversation: "why?"
    alone is no question.
    """
    if STYLES[model.prompt].reads_history and request.history:
        return request.question
    return outcome.searched_as or request.question


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
    # A citation names a passage's own place: what stands around it counts only for a sentence
    # that no passage supports by itself.
    own = match_sentences(outcome.text, outcome.passages[: outcome.given])
    wide = match_sentences(outcome.text, outcome.widened)
    outcome.sentences = tuple(a if a.supported else b for a, b in zip(own, wide, strict=True))
