"""Markdown: the source is the text; only headings are made out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt

from apps.documents.parsing.kinds import MARKDOWN
from apps.documents.parsing.reading import cut_pages, ended, parts_of, read_clean
from apps.documents.parsing.types import Heading, Part, Source

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_EMPHASIS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)|!?\[([^\]]*)\]\([^)]*\)")
# Larger files are cut in pages, and their headings looked for line by line: the full grammar needs
# the whole text, and is superlinear on some input.
_GRAMMAR_MAX_BYTES = 1_000_000
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.+?)[ \t#]*\n?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TITLE_MAX_CHARS = 1000


class MarkdownParser:
    def reads(self, kind: str) -> bool:
        return kind == MARKDOWN

    def parse(self, source: Source) -> Iterator[Part]:
        if source.path.stat().st_size > _GRAMMAR_MAX_BYTES:
            yield from parts_of(_pages(source))
            return
        text = ended("".join(piece for piece, _ in read_clean(source)))
        yield Part((text,), tuple(find_headings(text)))


def _pages(source: Source) -> Iterator[tuple[str, list[Heading], float]]:
    finder = _LineByLine()
    for number, (page, progress) in enumerate(cut_pages(read_clean(source))):
        front = _FRONT_MATTER.match(page) if number == 0 else None
        yield page, finder.headings(page, front.end() if front else 0), progress


class _LineByLine:
    """Headings by their hashes, page after page; what is fenced is code."""

    def __init__(self) -> None:
        self._fence = ""

    def headings(self, page: str, start: int) -> list[Heading]:
        found: list[Heading] = []
        for line in page[start:].splitlines(keepends=True):
            fence = _FENCE.match(line)
            if fence and not self._fence:
                self._fence = fence[1]
            elif fence and fence[1].startswith(self._fence):
                self._fence = ""
            elif not self._fence and len(line) <= _TITLE_MAX_CHARS:
                title = _ATX.fullmatch(line)
                if title:
                    found.append(Heading(start, len(title[1]), _plain(title[2])))
            start += len(line)
        return found


def find_headings(text: str) -> list[Heading]:
    """Headings with their offset in `text`, outside of front matter and code."""
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    starts = _line_starts(text, start)
    tokens = MarkdownIt("commonmark", {"maxNesting": 50}).parse(text[start:])
    return [
        Heading(starts[opening.map[0]], int(opening.tag[1]), _plain(inline.content))
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open" and opening.map and inline.content.strip()
    ]


def _line_starts(text: str, start: int) -> list[int]:
    starts = [start]
    while (newline := text.find("\n", starts[-1])) >= 0:
        starts.append(newline + 1)
    return starts


def _plain(title: str) -> str:
    return " ".join(_EMPHASIS.sub(lambda found: found[1] or "", title).split())
