"""A document's pages as they are read beside the passages they were cut into.

Call inside the tenant's scope.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from apps.documents.models import Chunk, Document, Page
from apps.documents.selectors import chunks_between, pages_between, pages_of

_PAGES_MAX = 20  # on one screen
_CHARS_MAX = 100_000  # about as much text as that; pages of a table may be long


@dataclass(frozen=True)
class Segment:
    """A run of a page's text that the same passages hold: none, one, or two that overlap."""

    text: str
    chunks: tuple[Chunk, ...]
    starts: tuple[Chunk, ...] = ()  # those of `chunks` whose first text on this page it is

    @property
    def lead(self) -> str:
        """The white space it begins with."""
        return self.text[: len(self.text) - len(self.text.lstrip())]

    @property
    def body(self) -> str:
        return self.text.strip()

    @property
    def tail(self) -> str:
        """The white space it ends with, where there is a body."""
        return self.text[len(self.text.rstrip()) :] if self.body else ""

    @property
    def is_odd(self) -> bool:
        """Neighbours are told apart by turns."""
        return bool(self.chunks) and self.chunks[0].ordinal % 2 == 1


@dataclass(frozen=True)
class PageText:
    """One page, cut where its passages begin and end."""

    number: int
    segments: tuple[Segment, ...]

    @property
    def is_blank(self) -> bool:
        return not any(segment.text.strip() for segment in self.segments)


@dataclass(frozen=True)
class Part:
    """Pages of a document that are shown together."""

    number: int  # from 1
    parts: int
    pages: tuple[PageText, ...]

    @property
    def previous(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        return self.number + 1 if self.number < self.parts else None


def read_part(document: Document, *, part: int | None = None, at: int | None = None) -> Part:
    """Part `part` (from 1) of the document, or the one that holds page `at`; the nearest there is.

    While the document is being read, what there is so far.
    """
    size = _pages_a_part(document)
    parts = max(1, -(-document.page_count // size))
    wanted = (max(1, at) - 1) // size + 1 if at is not None else part or 1
    number = min(max(1, wanted), parts)
    first, last = (number - 1) * size + 1, number * size
    pages = pages_between(document.tenant_id, document.id, first, last)
    chunks = chunks_between(document, first, last)
    return Part(number, parts, tuple(cut(page, chunks) for page in pages))


def _pages_a_part(document: Document) -> int:
    """Fewer where pages are long; told from where the last one starts, so all parts agree."""
    last = pages_of(document.tenant_id, document.id).order_by("-number").only("char_start").first()
    if last is None or last.number < 2:
        return _PAGES_MAX
    chars = max(1, last.char_start // (last.number - 1))
    return max(1, min(_PAGES_MAX, _CHARS_MAX // chars))


def cut(page: Page, chunks: Sequence[Chunk]) -> PageText:
    """In one sweep: a page may hold thousands of passages."""
    start, end = page.char_start, page.char_start + len(page.text)
    here = [chunk for chunk in chunks if chunk.char_start < end and chunk.char_end > start]
    edges = {start, end}
    for chunk in here:
        edges |= {max(start, chunk.char_start), min(end, chunk.char_end)}
    cuts = sorted(edges)
    segments: list[Segment] = []
    waiting, over = deque(here), list[Chunk]()
    for low, high in pairwise(cuts):
        over = [chunk for chunk in over if chunk.char_end > low]
        new = []
        while waiting and waiting[0].char_start <= low:
            new.append(waiting.popleft())
        over += new
        segments.append(Segment(page.text[low - start : high - start], tuple(over), tuple(new)))
    return PageText(page.number, tuple(segments))
