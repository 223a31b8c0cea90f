"""Text files of any size, a piece at a time."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.decode import BLOCK_BYTES, find_encoding
from apps.documents.parsing.types import Heading, Part, Source

# A page of a text that has no pages of its own; a citation names it.
PAGE_CHARS = 200_000
# Parts are handed on at this size, with whole pages: from 0.5 to about 0.7 million characters.
_PART_CHARS = 500_000
# Of a line longer than this, pieces are taken.
_LINE_MAX_CHARS = 1_000_000


def read_pieces(source: Source) -> Iterator[tuple[str, float]]:
    """The decoded text in pieces of a megabyte or so, and the share of the file that was read.

    A piece ends at the end of a line, and takes no blank lines with it: joined, the pieces are the
    text. Raises EncodingUnclear.
    """
    encoding = find_encoding(source.path, chosen=source.encoding)
    decoder = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(encoding)(errors="replace"), translate=True
    )
    size = max(1, source.path.stat().st_size)
    kept, done = "", 0
    with source.path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            done += len(block)
            piece, kept = _cut_at_line(kept + decoder.decode(block))
            if piece:
                yield piece, min(1.0, done / size)
    if last := kept + decoder.decode(b"", final=True):
        yield last, 1.0


def _cut_at_line(text: str) -> tuple[str, str]:
    """Up to the last line end (blank lines after it are kept back), and the rest."""
    end = len(text[: text.rfind("\n") + 1].rstrip())
    newline = text.find("\n", end)
    if end and newline >= 0:
        return text[: newline + 1], text[newline + 1 :]
    return (text, "") if len(text) > _LINE_MAX_CHARS else ("", text)


def read_clean(source: Source) -> Iterator[tuple[str, float]]:
    """As `read_pieces`, fit to be stored."""
    for piece, progress in read_pieces(source):
        yield clean_text(piece), progress


def cut_pages(pieces: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Pages of up to PAGE_CHARS, each ending with a line, at a paragraph's end where one is near.

    A text that is no longer than that is one page.
    """
    held, progress = "", 0.0
    for piece, progress in pieces:
        held += piece
        while len(held) > PAGE_CHARS:
            end = page_end(held)
            yield ended(held[:end]), progress
            held = held[end:]
    if held:
        yield ended(held), progress


def page_end(text: str) -> int:
    """Where a page of a longer text ends best."""
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, PAGE_CHARS * 3 // 4, PAGE_CHARS)
        if found >= 0:
            return found + len(mark)
    return PAGE_CHARS


def ended(page: str) -> str:
    return page if not page or page.endswith("\n") else page + "\n"


@dataclass
class PartBuilder:
    """Pages and their headings, until there are enough for a part."""

    chars: int = 0
    pages: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)

    def add(self, page: str, headings: Iterable[Heading] = ()) -> None:
        """`headings` with offsets in the page."""
        self.headings += (
            Heading(self.chars + each.offset, each.level, each.title) for each in headings
        )
        self.pages.append(page)
        self.chars += len(page)

    @property
    def is_full(self) -> bool:
        return self.chars >= _PART_CHARS or len(self.pages) >= 1000

    def take(self, progress: float) -> Part:
        part = Part(tuple(self.pages), tuple(self.headings), progress)
        self.chars, self.pages, self.headings = 0, [], []
        return part


def parts_of(
    pages: Iterable[tuple[str, Iterable[Heading], float]],
) -> Iterator[Part]:
    """Pages, each with its headings and the progress so far, in parts."""
    builder, progress = PartBuilder(), 1.0
    for page, headings, progress in pages:
        builder.add(page, headings)
        if builder.is_full:
            yield builder.take(progress)
    if builder.pages:
        yield builder.take(1.0)
