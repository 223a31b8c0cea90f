"""Rows of tables as lines of text, one at a time, each cell with its header."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from apps.documents.parsing.types import Block

_NUMBER = re.compile(r"[-+]?[\d.,\s]+%?")
# Rows above the header with one filled cell are the table's title, or remarks.
_TITLES_MAX = 10
# A header is repeated in every row: a long one would make gigabytes of megabytes.
_LABEL_MAX_CHARS = 200
_BLOCK_CHARS = 20_000


class RowWriter:
    """Makes lines such as `Item: Pear; Price: 3`; without a header, cells with `joint` between.

    A passage is read without the top of its table, so every row says what its cells mean. The
    header is the first row with two cells or more, if all are filled (but the corner), differ and
    are words. A header with nothing under it is a row.
    """

    def __init__(self, *, joint: str = "; ") -> None:
        self._joint = joint
        self._seen = 0
        self._pending: list[str] = []  # a header until a row comes
        self._header: list[str] = []
        self._decided = False

    def add(self, row: Sequence[str]) -> list[str]:
        """The lines that are certain with this row."""
        cells = _stripped(row)
        if not any(cells):
            return []
        self._seen += 1
        if self._pending:
            self._header = [cell[:_LABEL_MAX_CHARS] for cell in self._pending]
            self._pending = []
        elif not self._decided and (sum(map(bool, cells)) > 1 or self._seen > _TITLES_MAX):
            self._decided = True
            if _is_header(cells):
                self._pending = cells
                return []
        if self._header:
            return [_labelled(self._header, cells)]
        return [self._joint.join(filter(None, cells))]

    def end(self) -> list[str]:
        """What is left at the end of the table."""
        return [self._joint.join(filter(None, self._pending))] if self._pending else []


def row_lines(rows: Iterable[Sequence[str]], *, joint: str = "; ") -> Iterator[str]:
    """All the lines of a table, as RowWriter makes them."""
    writer = RowWriter(joint=joint)
    for row in rows:
        yield from writer.add(row)
    yield from writer.end()


def row_blocks(lines: Iterable[str], page: int = 0) -> Iterator[Block]:
    """Blocks of a bounded number of lines."""
    held: list[str] = []
    chars = 0
    for line in lines:
        held.append(line)
        chars += len(line)
        if chars >= _BLOCK_CHARS:
            yield Block("\n".join(held), page=page)
            held, chars = [], 0
    if held:
        yield Block("\n".join(held), page=page)


def _stripped(row: Sequence[str]) -> list[str]:
    cells = [" ".join(cell.split()) for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _is_header(row: Sequence[str]) -> bool:
    named = list(row[1:] if row and not row[0] else row)
    words = all(cell and not _NUMBER.fullmatch(cell) for cell in named)
    return len(row) > 1 and words and len(set(named)) == len(named)


def _labelled(header: Sequence[str], row: Sequence[str]) -> str:
    cells = []
    for index, cell in enumerate(row):
        label = header[index] if index < len(header) else ""
        if cell:
            cells.append(f"{label}: {cell}" if label else cell)
    return "; ".join(cells)
