"""The text at a place in a document, for who may read the document. Inside the tenant's scope."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.documents.models import Document, Page
from apps.documents.selectors import collections_for
from apps.retrieval.selectors import read_chunks
from apps.tenants.access import Access

MAX_CHARS = 4000  # of one text shown: a label may be a whole chapter


@dataclass(frozen=True)
class Place:
    """A range of a document, as a label or a ranked list names it; None: the whole document."""

    document_id: uuid.UUID
    char_start: int | None
    char_end: int | None
    chunk_id: uuid.UUID | None = None


@dataclass(frozen=True)
class PlaceText:
    """What stands at a place now. Without a document it is gone, or not open to the reader."""

    document: Document | None
    text: str = ""
    page_first: int = 0
    page_last: int = 0
    heading_path: str = ""
    chunk_id: uuid.UUID | None = None  # where the chunk still exists, for a link to it


def read_places(access: Access, places: Iterable[Place]) -> dict[Place, PlaceText]:
    """The text at each place, under the reader's rights.

    A chunk that was cut anew is read from its document's pages, by its range.
    """
    wanted = set(places)
    documents = _documents(access, {place.document_id for place in wanted})
    chunks = read_chunks(access.tenant.id, [p.chunk_id for p in wanted if p.chunk_id])
    found: dict[Place, PlaceText] = {}
    for place in wanted:
        document = documents.get(place.document_id)
        chunk = chunks.get(place.chunk_id) if place.chunk_id else None
        if document is None:
            found[place] = PlaceText(None)
        elif chunk is not None and chunk.document_id == document.id:
            found[place] = PlaceText(
                *(document, chunk.text[:MAX_CHARS], chunk.page_first, chunk.page_last),
                *(chunk.heading_path, chunk.id),
            )
        else:
            found[place] = _from_pages(document, place)
    return found


def _documents(access: Access, ids: set[uuid.UUID]) -> Mapping[uuid.UUID, Document]:
    rows = Document.objects.filter(
        tenant_id=access.tenant.id, id__in=ids, collection__in=collections_for(access).order_by()
    )
    return {each.id: each for each in rows}


def _from_pages(document: Document, place: Place) -> PlaceText:
    start = place.char_start or 0
    end = min(start + MAX_CHARS, place.char_end) if place.char_end else start + MAX_CHARS
    pages = Page.objects.filter(tenant_id=document.tenant_id, document_id=document.id)
    # Offsets are in no index; they rise with the page's number, and are short to read.
    first = pages.filter(char_start__lte=start).order_by("-number").only("number").first()
    if first is None:
        return PlaceText(document)
    read = list(pages.filter(number__gte=first.number, char_start__lt=end).order_by("number"))
    parts = [page.text[max(0, start - page.char_start) : end - page.char_start] for page in read]
    return PlaceText(document, "\n".join(filter(None, parts)), read[0].number, read[-1].number)
