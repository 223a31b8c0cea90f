"""What parsers take and give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Source:
    """A file to read. `kind` is the MIME type told from its content.

    `encoding` is what a person chose for a text whose encoding could not be told, else "". With
    `ocr`, pages that are pictures are to be recognised.
    """

    path: Path
    name: str
    kind: str
    encoding: str = ""
    ocr: bool = False

    @cached_property
    def data(self) -> bytes:
        """All of the file: for parsers that cannot read it piece by piece."""
        return self.path.read_bytes()


@dataclass(frozen=True)
class Heading:
    """A heading and where it starts in its part's text; level 1 is the highest."""

    offset: int
    level: int
    title: str


@dataclass(frozen=True)
class Part:
    """Whole pages of a document that follow one another: all of them, or a batch of many.

    The document's text is the concatenation of the parts' texts, exactly.
    """

    pages: tuple[str, ...]
    headings: tuple[Heading, ...] = ()
    progress: float = 1.0  # share of the file that has been read with this part, 0 to 1

    @property
    def text(self) -> str:
        return "".join(self.pages)


class Parser(Protocol):
    """Reads some kinds of file. One module each; `parsing.parse` lists them."""

    def reads(self, kind: str) -> bool: ...

    def parse(self, source: Source) -> Iterator[Part]:
        """The file's parts in order; a large file in many, so that memory stays flat.

        Raises an `Unreadable` error when the file cannot be read.
        """
        ...


@dataclass(frozen=True)
class Block:
    """A piece of text on its way to a page; a heading when `level` is above 0."""

    text: str
    level: int = 0
    page: int = 0  # 0: the same page as the block before


def assemble(blocks: Iterable[Block]) -> Part:
    """Lay blocks out as pages, a blank line between two, and note where headings fall.

    Page numbers never go back: a block that claims an earlier page stays on the current one.
    """
    pages: list[str] = [""]
    headings: list[Heading] = []
    done = 0  # characters of the pages before the last
    for block in blocks:
        if not block.text.strip():
            continue
        while len(pages) < block.page:
            done += len(pages[-1])
            pages.append("")
        if block.level:
            headings.append(Heading(done + len(pages[-1]), block.level, block.text.strip()))
        pages[-1] += block.text + "\n\n"
    return Part(tuple(pages), tuple(headings))
