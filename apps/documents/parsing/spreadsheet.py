"""Spreadsheets (XLSX, XLSB, XLS, ODS): every sheet by its name, every row with its headers.

What a cell shows is its value: a formula's is the one stored when the file was last calculated. A
formula that was never calculated has none, and is left out: its text would look like a value. Dates
are ISO dates with the time of day, numbers have up to 15 digits and no format of their own.
Hidden sheets are included. The value of merged cells stands in the first of them.
"""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any

import python_calamine as calamine

from apps.documents.errors import Damaged, PasswordProtected
from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.kinds import SPREADSHEETS, XLSX
from apps.documents.parsing.ooxml import Package, opened
from apps.documents.parsing.paging import paged
from apps.documents.parsing.tables import row_blocks, row_lines
from apps.documents.parsing.types import Block, Part, Source

# Calamine holds a sheet as a full rectangle, about 32 bytes a cell. A larger one, or one with a
# stray value in a far corner, is streamed with openpyxl, which is twenty times slower.
_RECTANGLE_MAX_CELLS = 6_000_000
_READ_BYTES = 1024 * 1024
_ROW = re.compile(rb"<(?:\w+:)?row\b(?:[^>]*?\br=\"(\d+)\")?")
_CELL = re.compile(rb"<(?:\w+:)?c\b[^>]*?\br=\"([A-Za-z]+)(\d+)\"")
_COUNT = re.compile(rb"(?:c|uniqueC)ount=[\"'](\d+)")
_TAG_MAX_BYTES = 400
# No sheet of Excel's is longer.
_ROWS_MAX = 1_048_576


class SpreadsheetParser:
    def reads(self, kind: str) -> bool:
        return kind in SPREADSHEETS

    def parse(self, source: Source) -> Iterator[Part]:
        if source.kind == XLSX:
            with opened(source.path) as package:
                _check_counts(package)
                wide = _is_wide(package)
            if wide:
                yield from _streamed(source)
                return
        yield from _loaded(source)


def _check_counts(package: Package) -> None:
    """Raises Damaged where a list is said to be longer than its text: calamine would make room."""
    for name in ("xl/sharedStrings.xml", "xl/styles.xml"):
        if package.has(name):
            with package.open(name) as part:
                said = [int(count[:20]) for count in _COUNT.findall(part.read(_READ_BYTES))]
            if max(said, default=0) > package.size(name):
                raise _damaged()


def _is_wide(package: Package) -> bool:
    """Whether some sheet's rectangle is too large to be held, by the addresses of its cells."""
    names = [name for name in package.names() if re.search(r"worksheets/[^/]+\.xml$", name)]
    return any(_rectangle(package, name) > _RECTANGLE_MAX_CELLS for name in names)


def _rectangle(package: Package, name: str) -> int:
    """Cells of the rectangle that holds all of the sheet's. Raises Damaged for impossible ones."""
    rows, columns, counted = 0, 0, 0
    rest = b""
    with package.open(name) as sheet:
        while data := sheet.read(_READ_BYTES):
            text = rest + data
            counted += len(_ROW.findall(data))
            found = {*_CELL.findall(text), *((b"", row) for row in _ROW.findall(text) if row)}
            rows = max([rows, counted, *(int(row[:20]) for _, row in found)])
            columns = max([columns, *map(_column, {letters[:4] for letters, _ in found})])
            rest = text[-_TAG_MAX_BYTES:]
    if rows > _ROWS_MAX:
        raise _damaged()
    return rows * columns


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number


def _loaded(source: Source) -> Iterator[Part]:
    try:
        with calamine.CalamineWorkbook.from_path(str(source.path)) as book:
            reader = _Loaded(book)
            yield from paged(reader.blocks(), lambda: reader.progress)
    except calamine.PasswordError as exc:
        raise PasswordProtected(
            "The file is protected by a password. Enter it, or upload a copy without one."
        ) from exc
    except (calamine.CalamineError, OSError, ValueError) as exc:
        raise _damaged() from exc


class _Loaded:
    def __init__(self, book: Any) -> None:
        self.book = book
        self.progress = 0.0

    def blocks(self) -> Iterator[Block]:
        sheets = [
            sheet.name
            for sheet in self.book.sheets_metadata
            if sheet.typ == calamine.SheetTypeEnum.WorkSheet
        ]
        for number, name in enumerate(sheets):
            with suppress(calamine.WorksheetNotFound):
                sheet = self.book.get_sheet_by_name(name)
                rows = self._counted(sheet.iter_rows(), sheet.height, number, len(sheets))
                yield from _sheet(name, rows, page=number + 1)

    def _counted(
        self, rows: Iterator[Sequence[Any]], height: int, number: int, sheets: int
    ) -> Iterator[Sequence[Any]]:
        for count, row in enumerate(rows):
            self.progress = (number + count / max(1, height)) / sheets
            yield row


def _streamed(source: Source) -> Iterator[Part]:
    """Row by row, with memory for the shared strings only."""
    import openpyxl

    try:
        with source.path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            reader = _Streamed(book.worksheets)
            yield from paged(reader.blocks(), lambda: reader.progress)
    except (
        zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError,
        IndexError, SyntaxError, EOFError, OSError,
    ) as exc:  # fmt: skip
        raise _damaged() from exc


class _Streamed:
    def __init__(self, sheets: Sequence[Any]) -> None:
        self.sheets = sheets
        self.progress = 0.0

    def blocks(self) -> Iterator[Block]:
        for number, sheet in enumerate(self.sheets):
            self.progress = number / len(self.sheets)
            sheet.reset_dimensions()  # what the file says of them may be a lie
            yield from _sheet(sheet.title, sheet.iter_rows(values_only=True), page=number + 1)


def _sheet(name: str, rows: Iterator[Sequence[Any]], *, page: int) -> Iterator[Block]:
    lines = row_lines(([_shown(cell) for cell in row] for row in rows), joint="\t")
    title = " ".join(clean_text(name).split())
    for number, block in enumerate(row_blocks(lines, page)):
        if not number:
            yield Block(title, level=2, page=page)
        yield block


def _shown(value: Any) -> str:
    """A cell's value as a person would write it."""
    if value is None or isinstance(value, str):
        return clean_text(value or "")
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    if isinstance(value, date):
        return f"{value.isoformat()} 00:00:00"
    if isinstance(value, time):
        return value.isoformat(timespec="seconds")
    if isinstance(value, timedelta):
        return _duration(value)
    return clean_text(str(value))


def _duration(value: timedelta) -> str:
    seconds = round(abs(value.total_seconds()))
    sign = "-" if value < timedelta() else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _damaged() -> Damaged:
    return Damaged(
        "The file is damaged or was cut off. Open it in its program, save it again, "
        "and upload the copy."
    )
