"""The way in: from a file's bytes to its text. Called inside the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apps.documents.errors import EmptyFile, NoTextFound
from apps.documents.parsing.delimited import DelimitedParser
from apps.documents.parsing.kinds import detect_kind
from apps.documents.parsing.language import guess_language
from apps.documents.parsing.markdown import MarkdownParser
from apps.documents.parsing.pdf import PdfParser
from apps.documents.parsing.structured import StructuredParser
from apps.documents.parsing.text import TextParser
from apps.documents.parsing.types import Parsed, Parser, Source

# First that reads a kind wins.
PARSERS: tuple[Parser, ...] = (
    PdfParser(),
    TextParser(),
    MarkdownParser(),
    DelimitedParser(),
    StructuredParser(),
)


def parse(data: bytes, name: str, password: str | None = None) -> Parsed:
    """The text of `data`; `name` only tells kinds of text apart.

    Raises EmptyFile or an `Unreadable` error, whose message is for the person who uploaded it.
    """
    if not data.strip():
        raise EmptyFile("The file is empty.")
    kind = detect_kind(data, name)
    parser = next(parser for parser in PARSERS if parser.reads(kind))
    parsed = parser.parse(Source(data, name, kind, password))
    if not parsed.text.strip():
        raise NoTextFound("No text was found in the file.")
    return Parsed(kind, parsed.pages, parsed.headings, guess_language(parsed.text))


def parse_file(path: str, name: str, password: str | None = None) -> dict[str, Any]:
    """`parse` for the sandbox: a path in, plain data out (see `load_parsed`)."""
    parsed = parse(Path(path).read_bytes(), name, password)
    return {
        "kind": parsed.kind,
        "pages": parsed.pages,
        "headings": [(item.offset, item.level, item.title) for item in parsed.headings],
        "language": parsed.language,
    }
