"""The pipeline: one question, top to bottom.

Every hop is measured in the trace. A hop that is down degrades the answer and says so; only a
fault of the request itself, or a limit that was met, raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from django.utils.translation import gettext

from apps.chat.pipeline import cache, fallback
from apps.chat.pipeline.earning import earn_citations
from apps.chat.pipeline.making import make_answer
from apps.chat.pipeline.types import (
    AnswerEnded,
    AnswerRequest,
    Outcome,
    PipelineEvent,
    TextWritten,
    apply,
)
from apps.gateway.admission import Admission
from apps.gateway.caching import CacheUse
from apps.telemetry.hops import Trace


async def answer_question(
    request: AnswerRequest, trace: Trace, outcome: Outcome, admission: Admission | None
) -> AsyncGenerator[PipelineEvent, None]:
    """Answer one question.

    Yields QuestionRewritten where a follow-up was made to stand alone, SourcesFound once, notices
    as they arise, text as it is written, and AnswerEnded last. The caller makes `outcome` and
    keeps it: after a stop it holds what there was until then. Without an admission no model is
    asked: passages are quoted. Raises Limited or StoreDown where a budget refuses.
    """
    ended = False
    try:
        async with aclosing(_events(request, trace, outcome, admission)) as events:
            async for made in events:
                event = _in_askers_language(made)
                apply(event, outcome)
                ended = isinstance(event, AnswerEnded)
                yield event
    finally:
        # Also after a stop: what was written so far keeps its citations.
        if not ended and outcome.given:
            earn_citations(outcome)


def _in_askers_language(event: PipelineEvent) -> PipelineEvent:
    """Also of an answer from the cache, whose first asker may have had another language."""
    if isinstance(event, TextWritten | AnswerEnded) and event.text in fallback.FIXED_TEXTS:
        return replace(event, text=gettext(event.text))
    return event


def _events(
    request: AnswerRequest, trace: Trace, outcome: Outcome, admission: Admission | None
) -> AsyncGenerator[PipelineEvent, None]:
    if admission is None:
        cache.skip(trace)
        return make_answer(request, trace, None, CacheUse())
    return cache.answers(request, trace, outcome, admission)
