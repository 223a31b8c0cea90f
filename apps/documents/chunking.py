"""Cutting a document's text into passages that follow its headings.

A section is a heading with the text under it, as far as the page goes: a citation names a page, so
a chunk keeps to one. A section that fits is one chunk; a longer one is cut by semchunk at its most
meaningful breaks, and each piece reaches back over the end of the one before. Chunks are spans of
the text and nothing else: `text[start:end]` is the chunk.

Runs inside the sandbox; nothing of Django here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from apps.documents.parsing.types import Heading
from apps.documents.tokens import TokenCounter

# Raise it when chunks of the same text would come out otherwise: embedding indexes record it.
CHUNKER_VERSION = 1

PATH_SEPARATOR = " › "
PATH_MAX_CHARS = 500
_TITLE_MAX_CHARS = 300
# The heading path takes at most this share of a chunk's tokens.
_PATH_SHARE = 4
_LEAST_BODY_TOKENS = 16
# semchunk looks at the whole of what it is given again and again: long sections go in windows.
_WINDOW_CHARS = 50_000
_SENTENCE_START = re.compile(r"(?<=[.!?;:。！？])\s+(?=\S)|\n+(?=\S)")
_WORD_START = re.compile(r"\s+(?=\S)")


# Open headings from the top down: level and title.
Trail = list[tuple[int, str]]


@dataclass(frozen=True)
class Span:
    """A chunk: where it lies in the text, under which headings, and how long it is."""

    start: int
    end: int
    heading_path: str
    token_count: int  # of the text with its heading path


@dataclass
class _Section:
    """Text under one heading on one page. From `start` to `body` is the heading, or several."""

    start: int
    body: int
    end: int
    path: str


def chunk_text(
    text: str,
    headings: Sequence[Heading],
    count: TokenCounter,
    *,
    max_tokens: int,
    overlap_tokens: int,
    page_starts: Sequence[int] = (),
    trail: Trail | None = None,
) -> list[Span]:
    """Spans that cover every visible character of `text`, in order.

    Each with its heading path stays within `max_tokens`; neighbours in one section share up to
    `overlap_tokens`. None reaches over one of `page_starts` (offsets, ascending), but for a heading
    at the foot of a page, which goes with its text. The same input gives the same spans.

    `trail` holds the headings that are open where the text begins, and those where it ends
    afterwards: for a document that comes in parts.
    """
    trail = [] if trail is None else trail
    cutter = _Cutter(text, count, max_tokens, overlap_tokens, page_starts, trail)
    return [span for section in cutter.sections(headings) for span in cutter.cut(section)]


@dataclass
class _Cutter:
    text: str
    count: TokenCounter
    max_tokens: int
    overlap_tokens: int
    page_starts: Sequence[int]
    trail: Trail

    def sections(self, headings: Sequence[Heading]) -> list[_Section]:
        """Sections in order; a heading with nothing under it joins the section that follows."""
        sections: list[_Section] = []
        for section in self._by_page(self._split(headings)):
            if not self.text[section.start : section.end].strip():
                continue
            before = sections[-1] if sections else None
            if before and self._only_headings(before) and self._fits_as_prefix(before, section):
                section.start = before.start
                sections.pop()
            sections.append(section)
        if len(sections) > 1 and self._only_headings(sections[-1]):
            last = sections.pop()
            sections[-1].end = last.end
        return sections

    def _split(self, headings: Sequence[Heading]) -> Iterator[_Section]:
        usable = sorted(
            (heading for heading in headings if self._usable(heading)), key=lambda item: item.offset
        )
        ends = [heading.offset for heading in usable] + [len(self.text)]
        yield _Section(0, 0, ends[0], self._path(self.trail) if self.trail else "")
        for heading, end in zip(usable, ends[1:], strict=True):
            self.trail[:] = [item for item in self.trail if item[0] < heading.level]
            self.trail.append((heading.level, heading.title.strip()))
            line_end = self.text.find("\n", heading.offset, end)
            body = end if line_end < 0 else line_end + 1
            yield _Section(heading.offset, body, end, self._path(self.trail))

    def _by_page(self, sections: Iterable[_Section]) -> Iterator[_Section]:
        for section in sections:
            first = bisect_right(self.page_starts, section.start)
            last = bisect_left(self.page_starts, section.end)
            cuts = [section.start, *self.page_starts[first:last], section.end]
            for start, end in pairwise(cuts):
                body = min(max(section.body, start), end)
                yield _Section(start, body, end, section.path)

    def _usable(self, heading: Heading) -> bool:
        title = heading.title.strip()
        in_text = 0 <= heading.offset < len(self.text)
        return in_text and bool(title) and len(title) <= _TITLE_MAX_CHARS

    def _path(self, trail: Sequence[tuple[int, str]]) -> str:
        """The titles from the top down, the nearest kept where not all fit."""
        titles = [title for _, title in trail]
        while len(titles) > 1 and self._too_long(PATH_SEPARATOR.join(titles)):
            titles.pop(0)
        path = titles[0] if len(titles) == 1 else PATH_SEPARATOR.join(titles)
        while path and self._too_long(path):
            path = path[: len(path) * 3 // 4].rstrip()
        return path

    def _too_long(self, path: str) -> bool:
        return len(path) > PATH_MAX_CHARS or self.count(path) > self.max_tokens // _PATH_SHARE

    def _only_headings(self, section: _Section) -> bool:
        return section.body > section.start and not self.text[section.body : section.end].strip()

    def _fits_as_prefix(self, before: _Section, section: _Section) -> bool:
        prefix = self.text[before.start : max(section.body, before.end)]
        return self.count(prefix) <= self.max_tokens // 3

    def cut(self, section: _Section) -> Iterator[Span]:
        room = self.max_tokens - self.count(section.path)
        start, end = self._trim(section.start, section.end)
        if end - start < _WINDOW_CHARS and self.count(self.text[start:end]) <= room:
            yield self._span(start, end, section.path)
            return
        prefix_end = section.body
        prefix = self.count(self.text[section.start : prefix_end])
        if prefix > room // 2:
            prefix, prefix_end = 0, section.start
        limit = max(room - max(prefix, self.overlap_tokens), _LEAST_BODY_TOKENS)
        previous: tuple[int, int] | None = None
        for piece_start, piece_end in self._pieces(prefix_end, section.end, limit):
            first = start if previous is None else self._reach_back(previous, piece_start)
            if self.count(self.text[first:piece_end]) > room:
                first = piece_start
            yield self._span(first, piece_end, section.path)
            previous = (piece_start, piece_end)

    def _pieces(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
        # Only here: importing it costs memory, and others import this module for its constants.
        from semchunk.semchunk import chunk

        for low, high in self._windows(start, end):
            _, offsets = chunk(self.text[low:high], limit, self.count, memoize=False, offsets=True)
            for piece_start, piece_end in cast(list[tuple[int, int]], offsets):
                yield self._trim(low + piece_start, low + piece_end)

    def _windows(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Stretches of about _WINDOW_CHARS, ending at a paragraph, a line or a blank if any."""
        while end - start > _WINDOW_CHARS:
            tail = start + _WINDOW_CHARS * 3 // 4
            cut = start + _WINDOW_CHARS
            for mark in ("\n\n", "\n", " "):
                found = self.text.rfind(mark, tail, cut)
                if found > 0:
                    cut = found + len(mark)
                    break
            yield start, cut
            start = cut
        yield start, end

    def _reach_back(self, previous: tuple[int, int], start: int) -> int:
        """Where in the previous piece the overlap begins: a sentence, else a word; else none."""
        low, high = previous
        # Twelve characters a token: more than enough to hold the overlap.
        low = max(low + 1, high - self.overlap_tokens * 12)
        for pattern in (_SENTENCE_START, _WORD_START):
            starts = [found.end() for found in pattern.finditer(self.text, low, high)]
            # The later the start, the fewer the tokens: the first that fits is found by halving.
            first = bisect_left(
                starts, True, key=lambda at: self.count(self.text[at:start]) <= self.overlap_tokens
            )
            if first < len(starts):
                return starts[first]
        return start

    def _trim(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return start, end

    def _span(self, start: int, end: int, path: str) -> Span:
        text = self.text[start:end]
        return Span(start, end, path, self.count(f"{path}\n{text}" if path else text))
