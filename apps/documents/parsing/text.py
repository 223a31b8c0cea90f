"""Plain text, as it stands. Pages are form feeds, where it has them."""

from __future__ import annotations

from collections.abc import Iterator

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.kinds import TEXT
from apps.documents.parsing.reading import PAGE_CHARS, ended, page_end, parts_of, read_pieces
from apps.documents.parsing.types import Heading, Part, Source

# More form feeds than this are blank lines: a file of nothing else would have millions of pages.
_FORM_FEEDS_MAX = 20_000


class TextParser:
    def reads(self, kind: str) -> bool:
        return kind == TEXT

    def parse(self, source: Source) -> Iterator[Part]:
        yield from parts_of(_pages(source))


def _pages(source: Source) -> Iterator[tuple[str, tuple[Heading, ...], float]]:
    feeds, held, progress = 0, "", 1.0
    for piece, progress in read_pieces(source):
        sheets = piece.split("\f", max(0, _FORM_FEEDS_MAX - feeds))
        feeds += len(sheets) - 1
        sheets[0] = held + sheets[0]
        held = sheets.pop()
        for sheet in sheets:
            for page in _cut(clean_text(sheet)):
                yield page, (), progress
        if len(held) > 2 * PAGE_CHARS:
            *pages, held = _cut(clean_text(held), keep_last=True)
            for page in pages:
                yield page, (), progress
    for page in _cut(clean_text(held)):
        yield page, (), progress


def _cut(text: str, *, keep_last: bool = False) -> Iterator[str]:
    """A sheet as pages of bounded size; an empty one is an empty page."""
    while len(text) > PAGE_CHARS:
        end = page_end(text)
        yield ended(text[:end])
        text = text[end:]
    yield text if keep_last else ended(text)
