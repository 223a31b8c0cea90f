"""Collections as models of the OpenAI-compatible API: `rag/<name>` answers from documents.

The last message of a person is the question, what was said before it its history. Nothing is
stored as a conversation: the program keeps that.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.text import slugify

from apps.chat.errors import QuestionEmpty, QuestionTooLong
from apps.chat.frames import SNIPPET_CHARS
from apps.chat.pipeline import (
    AnswerEnded,
    AnswerRequest,
    Exchange,
    Outcome,
    TextWritten,
    answer_question,
    answer_trace,
)
from apps.chat.services import clean_question
from apps.documents.models import Collection
from apps.gateway.admission import Admission
from apps.gateway.api.providers import Asked, Attached, Offered, ProviderEvent, Served
from apps.gateway.calling.catalogue import load
from apps.gateway.errors import BadRequest, UnknownModel
from apps.gateway.types import CacheResult, Model
from apps.inference.errors import Interrupted
from apps.inference.types import ChatTurn, Finished, TextDelta
from apps.retrieval.types import Passage
from apps.telemetry.hops import Trace
from apps.telemetry.services import record_trace
from apps.tenants.aio import in_scope
from apps.tenants.models import ApiKey

PREFIX = "rag/"


class RagModels:
    """The provider of `rag/` models: every collection that a key opens is one."""

    prefix = PREFIX

    async def models(self, key: ApiKey) -> list[Offered]:
        """One a collection, by name."""
        return await in_scope(key.tenant_id, _offered, key)

    async def find(self, key: ApiKey, name: str) -> Offered | None:
        """By the collection's name where only one is called that, or by its id."""
        offered = await self.models(key)
        return next((each for each in offered if name in each.names), None)

    async def answer(
        self, key: ApiKey, asked: Asked, admission: Admission
    ) -> AsyncGenerator[ProviderEvent, None]:
        """The answer's text, then its citations, then how it ended."""
        request = _request(key, asked, await _default_model())
        trace = answer_trace(admission.caller, admission.id)
        outcome, cost_micros, told = Outcome(), 0, False
        try:
            async with aclosing(answer_question(request, trace, outcome, admission)) as events:
                async for event in events:
                    if isinstance(event, TextWritten):
                        if not told:
                            yield Served(_cache_result(trace))
                        told = True
                        yield TextDelta(event.text)
                    elif isinstance(event, AnswerEnded):
                        cost_micros = 0 if outcome.cache else event.cost_micros
        finally:
            await in_scope(key.tenant_id, record_trace, trace)
        if outcome.interrupted:
            raise Interrupted("The language model broke off before the answer was done. Try again.")
        fields = attached(outcome, key.tenant.slug, asked.model.collection_ids[0])
        yield Attached(fields, cost_micros)
        yield Finished(
            "stop",
            prompt_tokens=outcome.prompt_tokens or 0,
            completion_tokens=outcome.completion_tokens or 0,
            estimated=outcome.tokens_estimated,
        )


def attached(outcome: Outcome, tenant_slug: str, collection_id: uuid.UUID) -> dict[str, Any]:
    """What stands beside the text: the sources that it earned, where, and what was degraded."""
    cited = {marker: outcome.passages[marker - 1] for marker in outcome.cited}
    urls = {
        marker: _url(tenant_slug, collection_id, passage.document_id)
        for marker, passage in cited.items()
    }
    notices = [{"code": each.code, "message": each.message} for each in outcome.notices]
    return {
        "citations": [_citation(n, passage, urls[n]) for n, passage in cited.items()],
        "annotations": _annotations(outcome, cited, urls),
        "ragsite": {"kind": outcome.kind, "notices": notices},
    }


def _offered(key: ApiKey) -> list[Offered]:
    every = Collection.objects.filter(tenant_id=key.tenant_id).order_by("name", "id")
    opened = list(every.filter(id__in=key.collection_ids) if key.collection_ids else every)
    # Counted over all: what another name means must not depend on the key.
    slugs = Counter(slugify(name) for name in every.values_list("name", flat=True))
    return [_model(each, named=slugs[slugify(each.name)] == 1) for each in opened]


def _model(collection: Collection, *, named: bool) -> Offered:
    slug = slugify(collection.name)
    by_id = f"{PREFIX}{collection.id}"
    names = (f"{PREFIX}{slug}", by_id) if slug and named else (by_id,)
    created = int(collection.created_at.timestamp())
    return Offered(names, collection.name, created, (collection.id,))


def _request(key: ApiKey, asked: Asked, model: Model | None) -> AnswerRequest:
    """Raises BadRequest where there is no question."""
    turns = [turn for turn in asked.turns if turn.role in ("user", "assistant")]
    if not turns or turns[-1].role != "user":
        raise BadRequest("The last message is to be a question of the user.", param="messages")
    try:
        question = clean_question(turns[-1].content)
    except (QuestionEmpty, QuestionTooLong) as exc:
        raise BadRequest(str(exc), param="messages") from exc
    return AnswerRequest(
        tenant_id=key.tenant_id,
        question=question,
        collection_ids=asked.model.collection_ids,
        model=model,
        history=tuple(turns[:-1]),
        before=_exchanges(turns[:-1]),
        anew=asked.anew,
    )


async def _default_model() -> Model | None:
    try:
        return (await load()).find("")
    except UnknownModel:
        return None  # passages are quoted


def _exchanges(turns: Sequence[ChatTurn]) -> tuple[Exchange, ...]:
    """Questions with the answer that followed them, oldest first."""
    found: list[Exchange] = []
    for turn in turns:
        if turn.role == "user":
            found.append(Exchange(turn.content))
        elif found:
            found[-1] = Exchange(found[-1].question, turn.content)
    return tuple(found)


def _cache_result(trace: Trace) -> CacheResult:
    """What the cache had to do with an answer that has begun: its hop says."""
    results = (hop.attributes.get("result") for hop in trace.hops if hop.name == "cache")
    return CacheResult(str(next(results, "") or CacheResult.NONE))


def _citation(marker: int, passage: Passage, url: str) -> dict[str, Any]:
    return {
        "marker": marker,
        "document_id": str(passage.document_id),
        "document": passage.document_name,
        "pages": [passage.page_first, passage.page_last],
        "snippet": " ".join(passage.text.split())[:SNIPPET_CHARS],
        "score": round(passage.relevance, 4),
        "url": url,
    }


def _annotations(
    outcome: Outcome, cited: dict[int, Passage], urls: dict[int, str]
) -> list[dict[str, Any]]:
    """OpenAI's `url_citation`: where in the text a source supports a sentence."""
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": sentence.start,
                "end_index": sentence.end,
                "title": cited[marker].document_name,
                "url": urls[marker],
            },
        }
        for sentence in outcome.sentences
        for marker in sentence.markers
    ]


def _url(tenant_slug: str, collection_id: uuid.UUID, document_id: uuid.UUID) -> str:
    path = reverse("documents:document", args=[tenant_slug, collection_id, document_id])
    return settings.SITE_ORIGINS[0] + path if settings.SITE_ORIGINS else path
