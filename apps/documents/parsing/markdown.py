"""Markdown: the source is the text; only headings are made out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.decode import decode
from apps.documents.parsing.kinds import MARKDOWN
from apps.documents.parsing.types import Heading, Part, Source

_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", re.DOTALL)
_EMPHASIS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)|!?\[([^\]]*)\]\([^)]*\)")
# Beyond this, headings are looked for line by line: the full grammar is superlinear on some input.
_GRAMMAR_MAX_CHARS = 1_000_000
_ATX = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


class MarkdownParser:
    def reads(self, kind: str) -> bool:
        return kind == MARKDOWN

    def parse(self, source: Source) -> Iterator[Part]:
        text = clean_text(decode(source.data))
        if text and not text.endswith("\n"):
            text += "\n"
        yield Part((text,), tuple(find_headings(text)))


def find_headings(text: str) -> list[Heading]:
    """Headings with their offset in `text`, outside of front matter and code."""
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    if len(text) > _GRAMMAR_MAX_CHARS:
        return [
            Heading(found.start(), len(found[1]), _plain(found[2]))
            for found in _ATX.finditer(text, start)
        ]
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
