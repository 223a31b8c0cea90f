"""Which blocks of a growing Markdown text will not change any more.

Markdown is read line by line: once a block at the top level has ended, nothing that follows
changes it (link references, which could, are not read). So all such blocks but the last are
finished, and the last is where it cannot go on: a paragraph before an empty line, a closed fence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from markdown_it.token import Token

from apps.chat.rendering.markdown import markdown

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r(?!$)|\n)")
_FENCE = re.compile(r" {0,3}(?:`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
# What may go on after an empty line: items of a list, and whatever is indented.
_GOES_ON = re.compile(r"[ \t]|(?:[-+*]|\d{1,9}[.)])(?:\s|$)")
_CLOSED_AT_ONCE = {"heading_open", "hr"}
_CLOSED_BY_EMPTY_LINE = {"paragraph_open", "table_open", "blockquote_open", "math_block"}
# The text is read again from the first unfinished block on. However blocks are made up, all that
# is no more than this many times the text, and some to begin with.
_READINGS = 8
_FREE_CHARS = 16_384


@dataclass(frozen=True)
class Block:
    """A finished piece of an answer: one or more elements of the page."""

    index: int  # from 0
    end: int  # in characters of the whole text: up to here it is shown by this block and earlier
    html: str


class Blocks:
    """Finds finished blocks while text comes; `render` makes sanitised HTML of one."""

    def __init__(self, render: Callable[[str], str]) -> None:
        self._render = render
        self._tail = ""  # what no block holds yet
        self._scanned = 0  # of it, up to the last whole line
        self.looked_at = 0  # characters read as Markdown so far
        self._length = 0
        self._end = 0
        self._index = 0
        self._empty_before = False  # the last line looked at was empty

    def add(self, text: str) -> list[Block]:
        """Take more text; the blocks that are finished by it, in order."""
        self._tail += text
        self._length += len(text)
        if "\n" not in text and "\r" not in text:
            return []
        if not self._may_have_ended() or not self._may_look():
            return []
        self.looked_at += len(self._tail)
        return [self._block(length) for length in self._finished()]

    def _may_have_ended(self) -> bool:
        """Whether one of the lines that are whole now can have ended a block."""
        head = self._tail.lstrip("\r\n")
        goes_on = _GOES_ON.match(head) is not None
        fenced = _FENCE.match(head) is not None
        ended = False
        if not head:
            return ended
        for line in _LINE.finditer(self._tail, self._scanned):
            is_empty = not line[0].strip()
            if fenced:
                ended |= line.start() > 0 and _FENCE.match(line[0]) is not None
            elif goes_on:
                ended |= self._empty_before and not is_empty and not _GOES_ON.match(line[0])
            else:
                ended |= is_empty or self._ends_at_once(line[0])
            self._scanned, self._empty_before = line.end(), is_empty
        return ended

    @staticmethod
    def _ends_at_once(line: str) -> bool:
        begins = line.lstrip()[:2]
        return (
            _FENCE.match(line) is not None
            or _HEADING.match(line) is not None
            or begins in ("$$", "\\[")
            or line.rstrip().endswith(("$$", "\\]"))
        )

    def _may_look(self) -> bool:
        most = _READINGS * self._length + _FREE_CHARS
        return self.looked_at + len(self._tail) <= most

    def _finished(self) -> Iterator[int]:
        """Lengths of the finished blocks at the head of the tail, one after the other."""
        lines = [match.end() for match in _LINE.finditer(self._tail)]
        if not lines:
            return
        whole = self._tail[: lines[-1]]
        tops = [
            _Top(token, token.map[0], token.map[1])
            for token in markdown.parse(whole)
            if token.level == 0 and token.map and token.nesting >= 0
        ]
        starts = [0, *lines]
        begun = 0
        for after in tops[1:]:
            yield starts[after.first] - begun
            begun = starts[after.first]
        if tops and _is_closed(tops[-1], whole, starts):
            yield lines[-1] - begun

    def _block(self, length: int) -> Block:
        part, self._tail = self._tail[:length], self._tail[length:]
        self._scanned = max(0, self._scanned - length)
        self._end += length
        block = Block(self._index, self._end, self._render(part))
        self._index += 1
        return block


@dataclass(frozen=True)
class _Top:
    """A block at the top level."""

    token: Token
    first: int  # its lines: from `first` to before `last`
    last: int


def _is_closed(top: _Top, text: str, starts: list[int]) -> bool:
    """Whether the last block cannot go on, however the text does."""
    token = top.token
    if token.type == "fence":
        closing = rf" {{0,3}}{re.escape(token.markup)}{re.escape(token.markup[0])}*[ \t]*"
        line = text[starts[top.last - 1] : starts[top.last]].rstrip("\r\n")
        return top.last - top.first > 1 and re.fullmatch(closing, line) is not None
    if token.type in _CLOSED_AT_ONCE or (token.type == "math_block" and token.content):
        return True
    empty_line_follows = top.last < len(starts) - 1
    return token.type in _CLOSED_BY_EMPTY_LINE and empty_line_follows
