"""CSV and TSV: one line a row, every cell with its header, a page for a run of rows."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

from apps.documents.parsing.kinds import CSV
from apps.documents.parsing.reading import PAGE_CHARS, parts_of, read_clean
from apps.documents.parsing.tables import row_lines
from apps.documents.parsing.types import Heading, Part, Source

TSV = "text/tab-separated-values"
_ROWS_CHARS = 50_000  # of a page, and the row that takes it over
_FIELD_MAX_CHARS = 1_000_000
_ROW_MAX_CHARS = 2_000_000
_COLUMNS_MAX = 20_000  # of a longer row, the rest is another one
_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 50
_QUOTED = re.compile(r'"[^"]*"')
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])", re.IGNORECASE)  # a hint that Excel understands
# So many opening quotes that nothing closes, and quotes are taken to be inches.
_OPEN_QUOTES_MAX = 20


class DelimitedParser:
    def reads(self, kind: str) -> bool:
        return kind in {CSV, TSV}

    def parse(self, source: Source) -> Iterator[Part]:
        yield from parts_of(_pages(source))


def _pages(source: Source) -> Iterator[tuple[str, tuple[Heading, ...], float]]:
    lines = _Lines(read_clean(source))
    page: list[str] = []
    size = 0
    for row in row_lines(read_rows(lines, tabs=source.kind == TSV)):
        line = row + "\n"
        page.append(line)
        size += len(line)
        if size >= _ROWS_CHARS:
            for text in _bounded("".join(page)):
                yield text, (), lines.progress
            page, size = [], 0
    if page:
        yield "".join(page), (), 1.0


def _bounded(page: str) -> Iterator[str]:
    """The page whole, but for one with a row that is longer than any page may be."""
    if len(page) <= 2 * PAGE_CHARS:
        yield page
        return
    for at in range(0, len(page), PAGE_CHARS):
        yield page[at : at + PAGE_CHARS]


class _Lines:
    """Lines with their ends, and how much of the file they are so far."""

    def __init__(self, pieces: Iterable[tuple[str, float]]) -> None:
        self.progress = 0.0
        self._lines = self._cut(pieces)

    def _cut(self, pieces: Iterable[tuple[str, float]]) -> Iterator[str]:
        for piece, self.progress in pieces:
            yield from piece.splitlines(keepends=True)

    def __iter__(self) -> Iterator[str]:
        return self._lines


def read_rows(lines: Iterable[str], *, tabs: bool = False) -> Iterator[list[str]]:
    """Cells as they are written, formulas too; blank lines give empty rows.

    A quote that nothing closes, or not within a megabyte, is an ordinary character: it would
    swallow the rest of the table.
    """
    csv.field_size_limit(_FIELD_MAX_CHARS)
    source = _Rewindable(lines)
    delimiter = "\t" if tabs else _delimiter(source)
    for _ in range(_OPEN_QUOTES_MAX):
        try:
            yield from _read(source, delimiter, csv.QUOTE_MINIMAL)
            return
        except csv.Error:
            source.rewind()
            yield from csv.reader([source.take()], delimiter=delimiter, quoting=csv.QUOTE_NONE)
    yield from _read(source, delimiter, csv.QUOTE_NONE)


def _read(source: _Rewindable, delimiter: str, quoting: Literal[0, 3]) -> Iterator[list[str]]:
    for row in csv.reader(source, delimiter=delimiter, quoting=quoting):
        if quoting != csv.QUOTE_NONE and source.ended_in_quotes:
            raise csv.Error("a quote is not closed")
        source.forget()
        for at in range(0, max(1, len(row)), _COLUMNS_MAX):
            yield row[at : at + _COLUMNS_MAX]


class _Rewindable:
    """Lines that can be read again from the start of the row that is being read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._ahead: deque[str] = deque()
        self._taken: list[str] = []
        self._chars = 0  # of those taken
        self._exhausted = False

    def __iter__(self) -> _Rewindable:
        return self

    def __next__(self) -> str:
        if self._chars > _ROW_MAX_CHARS:
            raise csv.Error("a row is too long")
        try:
            line = self.take()
        except StopIteration:
            self._exhausted = True
            raise
        self._taken.append(line)
        self._chars += len(line)
        return line

    @property
    def ended_in_quotes(self) -> bool:
        several = self._exhausted and len(self._taken) > 1
        return several and sum(line.count('"') for line in self._taken) % 2 == 1

    def take(self) -> str:
        return self._ahead.popleft() if self._ahead else next(self._lines)

    def forget(self) -> None:
        self._taken.clear()
        self._chars = 0

    def rewind(self) -> None:
        self._ahead.extendleft(reversed(self._taken))
        self._exhausted = False
        self.forget()

    def look(self, count: int) -> list[str]:
        """The next lines, which stay to be read."""
        while len(self._ahead) < count and sum(map(len, self._ahead)) < _FIELD_MAX_CHARS:
            line = next(self._lines, None)
            if line is None:
                break
            self._ahead.append(line)
        return list(self._ahead)


def _delimiter(source: _Rewindable) -> str:
    """The one that parts the first lines most alike; quoted text does not count."""
    lines = source.look(_SAMPLE_LINES)
    lines = _QUOTED.sub("", "".join(lines)).strip("\n").split("\n")
    hint = _SEPARATOR_LINE.fullmatch(lines[0].strip(" "))
    if hint:
        while not source.take().strip():
            pass
        return hint[1]
    return max(_DELIMITERS, key=lambda each: _evenness(lines, each))


def _evenness(lines: list[str], delimiter: str) -> tuple[int, int, int]:
    """In how many lines there are as many as in the first; a comma in prose has a blank after."""
    tight = [line.count(delimiter) - line.count(delimiter + " ") for line in lines]
    loose = [line.count(delimiter) for line in lines]
    return _as_the_first(tight), _as_the_first(loose), loose[0]


def _as_the_first(counts: list[int]) -> int:
    return counts.count(counts[0]) if counts[0] else 0
