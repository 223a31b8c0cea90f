"""PDF: the text of every page, and headings told from font sizes."""

from __future__ import annotations

from collections.abc import Iterator

import kreuzberg

from apps.documents.errors import NoTextFound
from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.extract import extract, nodes
from apps.documents.parsing.kinds import PDF
from apps.documents.parsing.types import Heading, Part, Source

# A heading is looked for by its first characters, at the start of a line of its page.
_HEADING_MAX_CHARS = 200


class PdfParser:
    def reads(self, kind: str) -> bool:
        return kind == PDF

    def parse(self, source: Source) -> Iterator[Part]:
        result = extract(
            source.data,
            source.kind,
            # Structure comes with Markdown output only; the pages' own text stays plain.
            output_format="markdown",
            include_document_structure=True,
            pages=kreuzberg.PageConfig(extract_pages=True),
        )
        pages = _pages(result)
        if not any(page.strip() for page in pages):
            raise NoTextFound(
                "No text was found: its pages are blank or pictures, as scans are. "
                "Run text recognition (OCR) on it and upload the result."
            )
        yield Part(tuple(pages), tuple(_headings(result, pages)))


def _pages(result: kreuzberg.ExtractionResult) -> list[str]:
    numbered = {page["page_number"]: clean_text(page["content"]) for page in result.pages or ()}
    count = max([*numbered, 0])
    texts = [numbered.get(number, "") for number in range(1, count + 1)]
    if not any(text.strip() for text in texts) and result.content.strip():
        texts = [clean_text(result.content)]
    return [text if not text or text.endswith("\n") else text + "\n" for text in texts]


def _headings(result: kreuzberg.ExtractionResult, pages: list[str]) -> list[Heading]:
    starts = [0]
    for page in pages:
        starts.append(starts[-1] + len(page))
    found: list[Heading] = []
    cursor = 0  # headings come in reading order: each is looked for after the one before
    for node in nodes(result):
        content, number = node["content"], node.get("page") or 0
        if content["node_type"] != "heading" or not 1 <= number <= len(pages):
            continue
        title = " ".join(clean_text(content["text"]).split())
        base = starts[number - 1]
        at = _find_line(pages[number - 1], title, max(0, cursor - base))
        if at >= 0:
            found.append(Heading(base + at, int(content["level"]), title))
            cursor = base + at + 1
    return found


def _find_line(page: str, title: str, after: int) -> int:
    """Where a line of `page` begins with the title's first line; -1 when none does."""
    if not title or len(title) > _HEADING_MAX_CHARS:
        return -1
    offset = 0
    for line in page.splitlines(keepends=True):
        words = " ".join(line.split())
        if offset >= after and words and (title.startswith(words) or words.startswith(title)):
            return offset
        offset += len(line)
    return -1
