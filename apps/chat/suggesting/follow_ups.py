"""Questions one may go on with after an answer.

Of what was found for the question and not used by the answer, then of what stands next in the
documents it cites. The search finds an answer to each: the question's words are the headings of a
passage that is in the collections searched. No model is asked, and one query is made.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from django.db.models import F, Q

from apps.chat.pipeline.citations import content_terms
from apps.chat.pipeline.types import AnswerRequest, Outcome
from apps.chat.suggesting.opening import SEPARATOR
from apps.chat.suggesting.wording import about_heading
from apps.documents.models import Chunk
from apps.retrieval.analysis import detect_language
from apps.retrieval.types import Passage

FOLLOW_UPS = 3
_NEXT_CHUNKS = 8  # behind the last passage cited of a document
_SAME_FROM = 0.6  # share of a heading's words that were asked about already


def follow_ups_of(request: AnswerRequest, outcome: Outcome) -> list[str]:
    """At most three questions; none after an answer that found nothing. In the tenant's scope."""
    if outcome.kind == "not_found" or not outcome.passages:
        return []
    language = detect_language(f"{request.question}\n{outcome.text}") or "en"
    asked = [request.question, *(each.question for each in request.before)]
    asked += [_title(passage.heading_path) for passage in _cited(outcome)]
    known = [content_terms(text) for text in asked]
    found: list[str] = []
    for path in _headings(request, outcome):
        terms = content_terms(_title(path))
        question = about_heading(_title(path), language)
        if question is None or any(len(terms & each) >= _SAME_FROM * len(terms) for each in known):
            continue
        known.append(terms)
        found.append(question.text)
        if len(found) == FOLLOW_UPS:
            break
    return found


def _headings(request: AnswerRequest, outcome: Outcome) -> Iterator[str]:
    cited = {passage.chunk_id for passage in _cited(outcome)}
    yield from (each.heading_path for each in outcome.passages if each.chunk_id not in cited)
    yield from _next_headings(request.tenant_id, _cited(outcome))


def _cited(outcome: Outcome) -> Sequence[Passage]:
    return [outcome.passages[marker - 1] for marker in outcome.cited]


def _title(path: str) -> str:
    return path.rsplit(SEPARATOR, 1)[-1]


def _next_headings(tenant_id: uuid.UUID, cited: Sequence[Passage]) -> Iterator[str]:
    """What the documents tell after the passages that were cited, in their order."""
    behind = Q(pk__in=())
    for passage in cited:
        behind |= Q(document_id=passage.document_id, char_start__gte=passage.char_end)
    chunks = Chunk.objects.filter(
        behind, tenant_id=tenant_id, generation=F("document__generation")
    ).exclude(heading_path="")
    rows = chunks.order_by("document_id", "ordinal").values_list("heading_path", flat=True)
    yield from dict.fromkeys(rows[: _NEXT_CHUNKS * max(1, len(cited))])
