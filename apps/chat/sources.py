"""A citation opened: where its passage stands on the page, as far as that can still be shown."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apps.chat.models import Citation
from apps.chat.selectors import get_citation
from apps.documents.models import Document, DocumentState, Page
from apps.documents.selectors import get_document_for, pages_between
from apps.documents.viewing import Box, has_page_images, passage_boxes
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope

# A passage reaches over a page break at most; a wide table may reach further.
MOST_PAGES = 3
# Text shown around the passage. Kinds without pages are one page, which may be a whole book.
CONTEXT_CHARS = 1200


@dataclass(frozen=True)
class PassageOnPage:
    """The part of a passage that one page holds, with the text around it."""

    number: int
    before: str
    passage: str
    after: str
    cut_before: bool  # there is more of the page before `before`
    cut_after: bool
    first: int  # in the page's text: where `before` begins
    last: int  # and where `after` ends
    boxes: tuple[Box, ...]  # in fractions of the page; none where the kind has no page images


@dataclass(frozen=True)
class OpenedCitation:
    """What a citation leads to now."""

    citation: Citation
    state: str  # "open", "deleted", "closed" (not open to this person any more), "changed"
    document: Document | None = None
    pages: tuple[PassageOnPage, ...] = ()
    has_images: bool = False

    @property
    def is_replaced(self) -> bool:
        """Whether a newer version of the document answers now."""
        return self.document is not None and self.document.state == DocumentState.SUPERSEDED


def open_citation(access: Access, citation_id: uuid.UUID) -> OpenedCitation | None:
    """Find the passage of one of one's own citations; None where there is no such citation.

    Rights to the document are asked for again. Opens its own short scope: marking a passage on a
    page takes longer than a transaction should last.
    """
    with tenant_scope(access.tenant.id):
        citation = get_citation(access, citation_id)
    return open_place(access, citation) if citation is not None else None


def preview_citation(access: Access, citation_id: uuid.UUID) -> OpenedCitation | None:
    """As `open_citation`, without what takes long: no marks on a page's image."""
    with tenant_scope(access.tenant.id):
        citation = get_citation(access, citation_id)
    return open_place(access, citation, with_boxes=False) if citation is not None else None


def open_place(access: Access, citation: Citation, *, with_boxes: bool = True) -> OpenedCitation:
    """Find the passage of a citation that this person has been let in to follow, likewise."""
    with tenant_scope(access.tenant.id):
        if citation.document_id is None:
            return OpenedCitation(citation, "deleted")
        document = get_document_for(access, citation.document_id)
        if document is None:
            return OpenedCitation(citation, "closed")
        last = min(citation.page_last, citation.page_first + MOST_PAGES - 1)
        pages = list(pages_between(document.tenant_id, document.id, citation.page_first, last))
    passages = tuple(_passages(citation, document, pages, with_boxes=with_boxes))
    # Reading a document again may give other text: better none than the wrong passage. The text of
    # a version that was replaced stays as it was cited.
    if document.state not in (DocumentState.READY, DocumentState.SUPERSEDED) or not passages:
        return OpenedCitation(citation, "changed", document)
    return OpenedCitation(citation, "open", document, passages, has_page_images(document))


def _passages(
    citation: Citation, document: Document, pages: Iterable[Page], *, with_boxes: bool
) -> Iterator[PassageOnPage]:
    for page in pages:
        start = max(0, citation.char_start - page.char_start)
        end = min(len(page.text), citation.char_end - page.char_start)
        if start < end:
            boxes = (
                passage_boxes(document, page, citation.char_start, citation.char_end)
                if with_boxes
                else []
            )
            yield _on_page(page, start, end, boxes)


def _on_page(page: Page, start: int, end: int, boxes: Iterable[Box]) -> PassageOnPage:
    first = max(0, start - CONTEXT_CHARS)
    last = min(len(page.text), end + CONTEXT_CHARS)
    return PassageOnPage(
        number=page.number,
        before=page.text[first:start],
        passage=page.text[start:end],
        after=page.text[end:last],
        cut_before=first > 0,
        cut_after=last < len(page.text),
        first=first,
        last=last,
        boxes=tuple(boxes),
    )
