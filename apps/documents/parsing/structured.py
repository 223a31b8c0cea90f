"""Office files, HTML, e-books, mail and whatever else Kreuzberg reads, by its node tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import kreuzberg

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.decode import decode
from apps.documents.parsing.extract import extract, nodes
from apps.documents.parsing.kinds import HTML
from apps.documents.parsing.paging import paged
from apps.documents.parsing.tables import row_lines
from apps.documents.parsing.types import Block, Part, Source

# Below this share of the flat text's characters, the node tree has lost something.
_TREE_MIN_SHARE = 0.8
# In HTML, Kreuzberg's nodes carry Markdown for links, pictures and bold.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s\"[^\"]*\")?\)")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")


class StructuredParser:
    """The last in the list: reads every kind the others leave."""

    def reads(self, kind: str) -> bool:
        return True

    def parse(self, source: Source) -> Iterator[Part]:
        yield from paged(blocks_of(source.data, source.kind, encoding=source.encoding))


def blocks_of(data: bytes, kind: str, *, encoding: str = "") -> list[Block]:
    """The blocks of a file of any kind that Kreuzberg reads. Raises an `Unreadable` error."""
    if kind.startswith("text/") or kind.endswith(("xml", "json", "yaml")):
        data = decode(data, declared=True, encoding=encoding).encode(errors="replace")
    result = extract(
        data,
        kind,
        output_format="plain",
        include_document_structure=True,
        pages=kreuzberg.PageConfig(extract_pages=True),
    )
    blocks = list(_blocks(result))
    if _size(block.text for block in blocks) < _TREE_MIN_SHARE * _size([result.content]):
        blocks = [Block(clean_text(result.content))]
    if not blocks and kind == HTML:
        blocks = [Block(clean_text(_strip_tags(data.decode(errors="replace"))))]
    if kind == HTML:
        blocks = [replace(block, text=_unmark(block.text)) for block in blocks]
    return blocks


def _unmark(text: str) -> str:
    """Link and picture words without their addresses; twice, for a picture inside a link."""
    for _ in range(2):
        text = _LINK.sub(r"\1", text)
    return _BOLD.sub(r"\1", text)


def _size(texts: Any) -> int:
    return sum(len("".join(text.split())) for text in texts)


def _blocks(result: kreuzberg.ExtractionResult) -> Iterator[Block]:
    for node in nodes(result):
        content, page = node["content"], int(node.get("page") or 0)
        kind = content["node_type"]
        if kind == "heading":
            title = " ".join(clean_text(content["text"]).split())
            yield Block(title, level=max(1, int(content["level"])), page=page)
        elif kind == "table":
            yield Block("\n".join(row_lines(_rows(content["grid"]))), page=page)
        elif kind == "metadata_block":
            entries = [f"{name}: {value}" for name, value in content["entries"]]
            yield Block(clean_text("\n".join(entries)), page=page)
        elif kind == "list_item":
            yield Block("• " + clean_text(content["text"]).strip(), page=page)
        elif content.get("text"):
            yield Block(clean_text(content["text"]).strip(), page=page)


def _rows(grid: dict[str, Any]) -> list[list[str]]:
    rows = [[""] * int(grid["cols"]) for _ in range(int(grid["rows"]))]
    for cell in grid["cells"]:
        words = " ".join(clean_text(cell["content"]).split())
        if cell["row"] < len(rows) and cell["col"] < len(rows[cell["row"]]):
            rows[cell["row"]][cell["col"]] = words
    return rows


class _TagStripper(HTMLParser):
    """The text of a page too deeply nested for the parser."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in {"script", "style"}:
            self.hidden = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self.hidden:
            self.hidden = ""

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def _strip_tags(markup: str) -> str:
    stripper = _TagStripper()
    stripper.feed(markup)
    stripper.close()
    return "\n".join(part.strip() for part in stripper.parts if part.strip())
