"""The passages of an answer once more: read from their documents, with the rights of now."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from django.db.models import Q

from apps.chat.models import Citation, Message
from apps.documents.models import Chunk, Document, DocumentState, Page
from apps.documents.selectors import collections_for
from apps.retrieval.types import Passage
from apps.tenants.access import Access

_NOWHERE = uuid.UUID(int=0)
_READABLE = (DocumentState.READY, DocumentState.SUPERSEDED)


def passages_of(access: Access, answer: Message) -> tuple[Passage, ...]:
    """What an answer was given, so that marker n is the nth again.

    A passage whose document is gone, is closed to this person by now or is being read again has
    no text: it keeps its number, and nothing is quoted of it.
    """
    given = Citation.objects.filter(tenant=access.tenant, message=answer).order_by("marker")
    citations = {citation.marker: citation for citation in given}
    open_to = Document.objects.filter(
        tenant=access.tenant,
        id__in=[c.document_id for c in citations.values() if c.document_id],
        state__in=_READABLE,
        collection__in=collections_for(access).order_by(),
    )
    readable = set(open_to.values_list("id", flat=True))
    opened = [c for c in citations.values() if c.document_id in readable]
    texts, chunks = _texts(access, opened), _chunk_ids(access, opened)
    return tuple(
        _passage(marker, citations.get(marker), texts, chunks)
        for marker in range(1, max(citations, default=0) + 1)
    )


def _texts(access: Access, citations: Iterable[Citation]) -> dict[int, str]:
    """The text of each, by marker, cut out of the pages it is on."""
    where = Q(pk__in=())
    for each in citations:
        where |= Q(document_id=each.document_id, number__range=(each.page_first, each.page_last))
    pages = list(Page.objects.filter(where, tenant=access.tenant).order_by("number"))
    texts: dict[int, str] = {}
    for each in citations:
        parts = (
            page.text[max(0, each.char_start - page.char_start) : each.char_end - page.char_start]
            for page in pages
            if page.document_id == each.document_id
            and each.page_first <= page.number <= each.page_last
            and page.char_start < each.char_end
        )
        texts[each.marker] = "".join(parts)
    return texts


def _chunk_ids(access: Access, citations: Iterable[Citation]) -> dict[int, uuid.UUID]:
    """The chunk each was, by marker, where it still is one: what stands around it is known so."""
    where = Q(pk__in=())
    for each in citations:
        where |= Q(document_id=each.document_id, char_start=each.char_start, char_end=each.char_end)
    rows = Chunk.objects.filter(where, tenant=access.tenant)
    found = {
        (document_id, start, end): chunk_id
        for chunk_id, document_id, start, end in rows.values_list(
            "id", "document_id", "char_start", "char_end"
        )
    }
    places = {c.marker: (c.document_id, c.char_start, c.char_end) for c in citations}
    return {marker: found[place] for marker, place in places.items() if place in found}


def _passage(
    marker: int,
    citation: Citation | None,
    texts: dict[int, str],
    chunks: dict[int, uuid.UUID],
) -> Passage:
    return Passage(
        chunk_id=chunks.get(marker, _NOWHERE),
        document_id=(citation.document_id if citation else None) or _NOWHERE,
        document_name=citation.document_name if citation else "",
        heading_path=citation.heading_path if citation else "",
        text=texts.get(marker, ""),
        page_first=citation.page_first if citation else 1,
        page_last=citation.page_last if citation else 1,
        char_start=citation.char_start if citation else 0,
        char_end=citation.char_end if citation else 0,
        score=citation.score if citation else 0.0,
        relevance=citation.score if citation else 0.0,
    )
