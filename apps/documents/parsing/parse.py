"""The way in: from a file's bytes to its text. Called inside the sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apps.documents.errors import NoTextFound
from apps.documents.parsing.delimited import DelimitedParser
from apps.documents.parsing.kinds import detect_kind
from apps.documents.parsing.language import guess_language, has_enough
from apps.documents.parsing.markdown import MarkdownParser
from apps.documents.parsing.ocr import PictureParser
from apps.documents.parsing.pdf import PdfParser
from apps.documents.parsing.slides import SlidesParser
from apps.documents.parsing.spreadsheet import SpreadsheetParser
from apps.documents.parsing.structured import StructuredParser
from apps.documents.parsing.text import TextParser
from apps.documents.parsing.types import Parser, Part, Source
from apps.documents.parsing.word import WordParser

# Of the parts with text enough, the first so many are asked for the language.
_LANGUAGE_TRIES = 3

# First that reads a kind wins.
PARSERS: tuple[Parser, ...] = (
    PdfParser(),
    TextParser(),
    MarkdownParser(),
    DelimitedParser(),
    WordParser(),
    SlidesParser(),
    SpreadsheetParser(),
    PictureParser(),
    StructuredParser(),
)


def parse(path: Path, name: str, *, encoding: str = "", ocr: bool = False) -> Iterator[Part]:
    """The parts of a file; `name` only tells kinds of text apart.

    Raises EmptyFile or an `Unreadable` error, whose message is for the person who uploaded it;
    NoTextFound comes after the last part.
    """
    yield from _parts(_source(path, name, encoding=encoding, ocr=ocr))


def parse_file(
    path: str, name: str, *, encoding: str = "", ocr: bool = False
) -> Iterator[dict[str, Any]]:
    """`parse` for the sandbox: a path in, plain data out, a part at a time."""
    source = _source(Path(path), name, encoding=encoding, ocr=ocr)
    language, tries = "", _LANGUAGE_TRIES
    for part in _parts(source):
        if not language and tries and has_enough(part.text):
            language, tries = guess_language(part.text), tries - 1
        yield {
            "kind": source.kind,
            "pages": part.pages,
            "headings": [(item.offset, item.level, item.title) for item in part.headings],
            "language": language,
            "progress": part.progress,
        }


def _source(path: Path, name: str, *, encoding: str, ocr: bool) -> Source:
    return Source(path, name, detect_kind(path, name), encoding, ocr)


def _parts(source: Source) -> Iterator[Part]:
    parser = next(parser for parser in PARSERS if parser.reads(source.kind))
    found = False
    for part in parser.parse(source):
        found = found or bool(part.text.strip())
        yield part
    if not found:
        raise NoTextFound("No text was found in the file.")
