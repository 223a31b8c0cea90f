"""Word documents (DOCX): every text exactly once, pages by their breaks, in bounded memory.

Paragraphs come in the order of the file. Text boxes stand before the paragraph they are anchored
in, footnotes and comments at the foot of their page, headers and footers (each once), endnotes at
the end. Deleted text, field codes and the phonetic gloss over a word are left out.

Page breaks are those set by hand and those Word noted when it last laid the document out; a file
written by another program may have none, and is one page then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from apps.documents.errors import Unreadable
from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.equations import linear
from apps.documents.parsing.kinds import DOCX
from apps.documents.parsing.ooxml import (
    Element,
    Package,
    attribute,
    child,
    children,
    damaged,
    ends,
    name_of,
    opened,
)
from apps.documents.parsing.paging import paged
from apps.documents.parsing.tables import RowWriter, row_blocks
from apps.documents.parsing.types import Block, Part, Source
from apps.documents.parsing.word_numbering import Numbering
from apps.documents.parsing.word_styles import Styles

_LEFT_OUT = {
    "pPr", "rPr", "tblPr", "trPr", "tcPr", "sdtPr", "del", "moveFrom", "delText", "instrText",
    "delInstrText", "rt", "annotationRef", "footnoteRef", "endnoteRef", "posOffset", "align",
}  # fmt: skip
_CHARACTERS = {"tab": "\t", "cr": "\n", "noBreakHyphen": "-", "softHyphen": "\u00ad"}
_WRAPPERS = {"sdt", "sdtContent", "customXml", "ins", "moveTo"}
_NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote"}
_TABLE_BLOCK_CHARS = 20_000
_COLUMNS_MAX = 100
# Of a merged cell, in each of its rows: one long text in many rows would make gigabytes.
_REPEATED_MAX_CHARS = 200
_CHUNK_KINDS = {
    "html": "text/html", "htm": "text/html", "xhtml": "text/html", "rtf": "application/rtf",
    "txt": "text/plain", "docx": DOCX,
}  # fmt: skip


class WordParser:
    def reads(self, kind: str) -> bool:
        return kind == DOCX

    def parse(self, source: Source) -> Iterator[Part]:
        with opened(source.path) as package:
            main = package.main_part()
            if not package.has(main):
                raise damaged()
            size = max(1, package.size(main))
            with package.open(main) as stream:
                blocks = _Reader(package, main).blocks(ends(stream, _is_top, *_TOP))
                yield from paged(blocks, lambda: min(1.0, stream.tell() / size))


_TOP = ("p", "tbl", "tr", "sdt", "customXml", "altChunk", "AlternateContent", "oMathPara", "sectPr")


def _is_top(element: Element) -> bool:
    """Whether it stands in the body itself; what is in such a table comes row by row."""
    parent = element.getparent()
    if parent is not None and name_of(parent) == "tbl":
        parent = parent.getparent()
    return parent is not None and name_of(parent) == "body"


@dataclass(frozen=True)
class _Mark:
    """Something in a paragraph that is no text: a page break, or a reference to a note."""

    kind: str  # break, rendered, footnote, endnote, comment
    reference: str = ""


@dataclass
class _Inline:
    """What a paragraph holds."""

    pieces: list[str | _Mark] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return clean_text("".join(piece for piece in self.pieces if isinstance(piece, str)))


def _inline(element: Element, into: _Inline) -> _Inline:
    for item in element:
        name = name_of(item)
        if name in _LEFT_OUT:
            continue
        if name == "t":
            into.pieces.append(item.text or "")
        elif name in _CHARACTERS:
            into.pieces.append(_CHARACTERS[name])
        elif name == "br":
            page = attribute(item, "type") == "page"
            into.pieces.append(_Mark("break") if page else "\n")
        elif name == "lastRenderedPageBreak":
            into.pieces.append(_Mark("rendered"))
        elif name in _NOTES or name == "commentReference":
            kind = _NOTES.get(name, "comment")
            into.pieces.append(_Mark(kind, attribute(item, "id")))
        elif name == "sym":
            into.pieces.append(_symbol(attribute(item, "char")))
        elif name == "oMath":
            into.pieces.append(linear(item))
        elif name == "AlternateContent":
            _inline(chosen(item), into)
        elif name == "txbxContent":
            into.boxes.append(item)
        else:
            _inline(item, into)
    return into


def chosen(alternate: Element) -> Element:
    """One of several ways to write the same: the first with text in it."""
    ways = [item for item in alternate if name_of(item) in {"Choice", "Fallback"}]
    return next((way for way in ways if "".join(way.itertext()).strip()), alternate[:0])


def _symbol(code: str) -> str:
    """A character of a symbol font, where it is one that other fonts have."""
    value = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0
    return chr(value) if 0x20 <= value < 0xD800 else ""


def _is_on(element: Element | None) -> bool:
    return element is not None and attribute(element, "val") not in {"0", "false", "off"}


class _Reader:
    """Goes through a document in order and keeps what cannot be written at once."""

    def __init__(self, package: Package, main: str) -> None:
        self.package = package
        self.relations = package.relations(main)
        self.styles = Styles(package, self.relations.values())
        self.numbering = Numbering(package, self.relations.values())
        self.notes = {kind: self._notes(kind) for kind in ("footnote", "endnote", "comment")}
        self.page = 1
        self.turned = False  # a page has just been begun by hand: Word notes that break again
        self.foot: list[str] = []  # notes of this page
        self.tail: list[str] = []  # endnotes
        self.edges: dict[str, None] = {}  # parts with headers and footers, in order
        self.above: list[str] = []  # the row before, for cells merged downwards

    def blocks(self, elements: Iterable[Element]) -> Iterator[Block]:
        stream = iter(elements)
        for element in stream:
            if name_of(element.getparent()) == "tbl":
                yield from self._table(_rows(element, stream))
            else:
                yield from self._block(element)
        yield from self._foot()
        yield from (Block(text, page=self.page) for text in self.tail)
        for part in self.edges:
            yield from self._edge(part)

    def _block(self, element: Element) -> Iterator[Block]:
        name = name_of(element)
        if name == "p":
            yield from self._paragraph(element)
        elif name == "tbl":
            yield from self._table(_through(element, "tr"))
        elif name == "oMathPara":
            yield Block(linear(element), page=self.page)
        elif name == "AlternateContent":
            yield from self._inside(chosen(element))
        elif name in _WRAPPERS:
            yield from self._inside(element)
        elif name == "altChunk":
            yield from self._chunk(attribute(element, "id"))
        elif name == "sectPr":
            self._section(element)

    def _inside(self, element: Element) -> Iterator[Block]:
        for item in element:
            yield from self._block(item)

    def _paragraph(self, element: Element) -> Iterator[Block]:
        properties = child(element, "pPr")
        level = self.styles.level(properties)
        numbered = self.styles.numbering(properties)
        inline = _inline(element, _Inline())
        number = self.numbering.next(*numbered) if numbered and inline.text.strip() else ""
        if level and number.startswith("•"):
            number = ""
        for box in inline.boxes:
            yield from self._inside(box)
        if _is_on(child(properties, "pageBreakBefore")):
            yield from self._turn(by_hand=True, only_once=True)
        text = ""
        for piece in inline.pieces:
            if isinstance(piece, str):
                text += piece
            elif piece.kind in {"break", "rendered"}:
                yield from self._text(text, level, number)
                text, number = "", number if not text.strip() else ""
                yield from self._turn(by_hand=piece.kind == "break", only_once=False)
            else:
                self._note(piece)
        yield from self._text(text, level, number)
        section = child(properties, "sectPr")
        if section is not None:
            self._section(section)
            kind = child(section, "type")
            if kind is None or attribute(kind, "val") not in {"continuous", "nextColumn"}:
                yield from self._turn(by_hand=True, only_once=False)

    def _text(self, text: str, level: int, number: str) -> Iterator[Block]:
        text = clean_text(text).strip()
        if text:
            self.turned = False
            words = " ".join(text.split()) if level else text
            yield Block(number + words, level=level, page=self.page)

    def _turn(self, *, by_hand: bool, only_once: bool) -> Iterator[Block]:
        """To the next page; not for a break that has been counted already."""
        if self.turned and (only_once or not by_hand):
            self.turned = by_hand
            return
        yield from self._foot()
        self.page += 1
        self.turned = by_hand

    def _foot(self) -> Iterator[Block]:
        yield from (Block(text, page=self.page) for text in self.foot)
        self.foot = []

    def _note(self, mark: _Mark) -> None:
        text = self.notes[mark.kind].pop(mark.reference, "")
        if text:
            (self.tail if mark.kind == "endnote" else self.foot).append(text)

    def _table(self, rows: Iterable[Element]) -> Iterator[Block]:
        writer = RowWriter()
        lines: list[str] = []
        self.above = []
        for row in rows:
            page = self.page
            cells = self._row(row)
            if self.page != page or sum(map(len, lines)) > _TABLE_BLOCK_CHARS:
                yield from row_blocks(lines, page)
                lines = []
            lines += writer.add(cells)
        yield from row_blocks([*lines, *writer.end()], self.page)

    def _row(self, row: Element) -> list[str]:
        if child(row, "trPr", "del") is not None:
            return []
        cells: list[str] = []
        for cell in _through(row, "tc"):
            properties = child(cell, "tcPr")
            merged = child(properties, "vMerge")
            text = self._cell(cell)
            if merged is not None and attribute(merged, "val") != "restart" and not text:
                text = self.above[len(cells)] if len(cells) < len(self.above) else ""
                text = text[:_REPEATED_MAX_CHARS]
            cells += [text, *[""] * (_span(properties) - 1)]
        self.above = cells
        return cells

    def _cell(self, cell: Element) -> str:
        """A cell in one line. Pages that turn inside of it turn before it."""
        above = self.above
        texts = [" ".join(block.text.split()) for block in self._inside(cell)]
        self.above = above
        return " ".join(texts)

    def _section(self, section: Element) -> None:
        for item in section:
            if name_of(item) in {"headerReference", "footerReference"}:
                relation = self.relations.get(attribute(item, "id"))
                if relation is not None:
                    self.edges.setdefault(relation.target)

    def _edge(self, part: str) -> Iterator[Block]:
        root = self.package.tree(part)
        yield from self._inside(root if root is not None else ())

    def _notes(self, kind: str) -> dict[str, str]:
        """Notes of a kind by their id."""
        relation = next((r for r in self.relations.values() if r.kind == f"{kind}s"), None)
        root = self.package.tree(relation.target) if relation else None
        notes = {}
        for item in children(root, kind) if root is not None else ():
            if attribute(item, "type") in {"", "normal"}:
                text = " ".join(filter(None, (_inline(p, _Inline()).text.strip() for p in item)))
                by = attribute(item, "author") if kind == "comment" else ""
                notes[attribute(item, "id")] = f"Comment by {by}: {text}" if by and text else text
        return notes

    def _chunk(self, reference: str) -> Iterator[Block]:
        """A file of another kind inside of the document, read as such."""
        from apps.documents.parsing.structured import blocks_of

        relation = self.relations.get(reference)
        kind = _CHUNK_KINDS.get(relation.target.rpartition(".")[2].lower()) if relation else None
        if relation is None or kind is None:
            return
        with suppress(Unreadable):  # the document around it is still worth reading
            for block in blocks_of(self.package.read(relation.target), kind):
                yield Block(block.text, block.level, self.page)


def _span(properties: Element | None) -> int:
    """How many columns a cell takes."""
    span = child(properties, "gridSpan")
    said = attribute(span, "val") if span is not None else ""
    return min(max(1, int(said[:9])), _COLUMNS_MAX) if said.isdecimal() else 1


def _rows(first: Element, stream: Iterator[Element]) -> Iterator[Element]:
    """The rows of a table in the body, up to its end."""
    yield from _through_wrappers(first, "tr")
    for element in stream:
        if name_of(element) == "tbl":
            return
        yield from _through_wrappers(element, "tr")


def _through(element: Element, wanted: str) -> Iterator[Element]:
    """Children of a name, also those inside of content controls."""
    for item in element:
        yield from _through_wrappers(item, wanted)


def _through_wrappers(element: Element, wanted: str) -> Iterator[Element]:
    if name_of(element) == wanted:
        yield element
    elif name_of(element) in _WRAPPERS:
        yield from _through(element, wanted)
