"""From a file to pages and chunks, a part at a time. Runs in the sandbox; nothing of Django here.

Parsing and chunking share a process: what is parsed goes on to be cut without being copied out
and in again, and a document of any size is in memory only as the part that is being read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate
from time import perf_counter
from typing import Any

from apps.documents.chunking import Span, Trail, chunk_text
from apps.documents.parsing.parse import parse_file
from apps.documents.parsing.types import Heading
from apps.documents.tokens import TokenCounter, load_counter


@dataclass(frozen=True)
class Passage:
    """A chunk on its way out: its text, where in the part it is, and on which of its pages."""

    text: str
    start: int
    end: int
    heading_path: str
    page_first: int  # from 0
    page_last: int
    token_count: int


@dataclass(frozen=True)
class Section:
    """A part of a document, parsed and chunked."""

    kind: str
    language: str
    pages: Sequence[str]
    passages: Sequence[Passage]
    progress: float  # share of the file that has been read, 0 to 1
    parse_ms: float
    chunk_ms: float


def read_file(
    path: str,
    name: str,
    *,
    encoding: str,
    ocr: bool,
    tokenizer_file: str | None,
    max_tokens: int,
    overlap_tokens: int,
) -> Iterator[dict[str, Any]]:
    """The sections of a file as plain data (see `load_section`).

    Raises a DocumentError, whose words are for the person who uploaded it.
    """
    count = load_counter(tokenizer_file)
    trail: Trail = []
    start = perf_counter()
    for part in parse_file(path, name, encoding=encoding, ocr=ocr):
        parsed = perf_counter()
        passages = _passages(part, count, max_tokens, overlap_tokens, trail)
        yield {
            "kind": part["kind"],
            "language": part["language"],
            "pages": part["pages"],
            "passages": [astuple(passage) for passage in passages],
            "progress": part["progress"],
            "parse_ms": (parsed - start) * 1000,
            "chunk_ms": (perf_counter() - parsed) * 1000,
        }
        start = perf_counter()


def load_section(item: dict[str, Any]) -> Section:
    """What `read_file` said, typed."""
    passages = [Passage(*row) for row in item.pop("passages")]
    return Section(passages=passages, **item)


def _passages(
    part: dict[str, Any], count: TokenCounter, max_tokens: int, overlap_tokens: int, trail: Trail
) -> list[Passage]:
    pages = part["pages"]
    text = "".join(pages)
    starts = [0, *accumulate(len(page) for page in pages[:-1])]
    spans = chunk_text(
        text,
        [Heading(*heading) for heading in part["headings"]],
        count,
        max_tokens=max_tokens,
        overlap_tokens=overlap_tokens,
        page_starts=starts[1:],
        trail=trail,
    )
    return [_passage(text, starts, span) for span in spans]


def _passage(text: str, starts: Sequence[int], span: Span) -> Passage:
    return Passage(
        text=text[span.start : span.end],
        start=span.start,
        end=span.end,
        heading_path=span.heading_path,
        page_first=bisect_right(starts, span.start) - 1,
        page_last=bisect_right(starts, span.end - 1) - 1,
        token_count=span.token_count,
    )
