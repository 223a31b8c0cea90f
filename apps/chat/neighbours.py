"""What stands before and after a citation's passage, stretch by stretch, as its reader asks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from apps.chat.selectors import get_citation
from apps.documents.models import Document, DocumentState, Page
from apps.documents.selectors import get_document_for, pages_between
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

STRETCH_CHARS = 2000
Way = Literal["before", "after"]


@dataclass(frozen=True)
class Place:
    """A page, and an offset in its text."""

    page: int
    at: int


@dataclass(frozen=True)
class Stretch:
    """Text of one page, and where what comes next in the same direction begins."""

    page: int
    text: str
    next: Place | None  # None where the document ends


def read_on(access: Access, citation_id: uuid.UUID, place: Place, way: Way) -> Stretch | None:
    """The text next to `place`; None where there is no such citation, document or page.

    Only for one's own citations, and while the document is open to this person.
    """
    with tenant_scope(access.tenant.id):
        citation = get_citation(access, citation_id)
        if citation is None or citation.document_id is None:
            return None
        document = get_document_for(access, citation.document_id)
        if document is None or document.state not in (
            DocumentState.READY,
            DocumentState.SUPERSEDED,
        ):
            return None
        return _before(document, place) if way == "before" else _after(document, place)


def _before(document: Document, place: Place) -> Stretch | None:
    page = _page(document, place.page)
    end = min(place.at, len(page.text)) if page else 0
    if page is None or end <= 0:
        page = _page(document, place.page - 1)
        end = len(page.text) if page else 0
    if page is None:
        return None
    start = max(0, end - STRETCH_CHARS)
    more = Place(page.number, start) if start > 0 or page.number > 1 else None
    return Stretch(page.number, page.text[start:end], more)


def _after(document: Document, place: Place) -> Stretch | None:
    page = _page(document, place.page)
    start = place.at
    if page is None or start >= len(page.text):
        page, start = _page(document, place.page + 1), 0
    if page is None:
        return None
    end = min(len(page.text), start + STRETCH_CHARS)
    is_last = end == len(page.text) and _page(document, page.number + 1) is None
    return Stretch(page.number, page.text[start:end], None if is_last else Place(page.number, end))


def _page(document: Document, number: int) -> Page | None:
    return pages_between(document.tenant_id, document.id, number, number).first()
