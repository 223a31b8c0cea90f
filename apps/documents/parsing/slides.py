"""Presentations (PPTX): a slide a page, its title the heading, its notes below.

Shapes come in the order of the file, which is the order they are read aloud in, but for groups:
their words are mostly labels of a drawing, and come after the text. Tables, diagrams and equations
are included, numbers in charts are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.equations import linear
from apps.documents.parsing.kinds import PPTX
from apps.documents.parsing.ooxml import (
    Element,
    Package,
    attribute,
    child,
    children,
    damaged,
    name_of,
    opened,
)
from apps.documents.parsing.paging import paged
from apps.documents.parsing.tables import row_blocks, row_lines
from apps.documents.parsing.types import Block, Part, Source
from apps.documents.parsing.word import chosen

_TITLES = {"title", "ctrTitle"}
# Placeholders that say the same on every slide, or only the slide's number.
_REPEATED = {"sldNum", "dt", "ftr", "hdr", "sldImg"}


class SlidesParser:
    def reads(self, kind: str) -> bool:
        return kind == PPTX

    def parse(self, source: Source) -> Iterator[Part]:
        with opened(source.path) as package:
            slides = _slides(package)
            done = 0

            def blocks() -> Iterator[Block]:
                nonlocal done
                for done, slide in enumerate(slides, start=1):
                    yield from _slide(package, slide, page=done)

            yield from paged(blocks(), lambda: done / max(1, len(slides)))


def _slides(package: Package) -> list[str]:
    """The slides' parts in the order they are shown."""
    main = package.main_part()
    root = package.tree(main)
    if root is None:
        raise damaged()
    relations = package.relations(main)
    listed = child(root, "sldIdLst")
    wanted = [relations.get(_relation_id(item)) for item in (listed if listed is not None else ())]
    return [item.target for item in wanted if item is not None and package.has(item.target)]


def _relation_id(element: Element) -> str:
    """`r:id`, beside which there is an `id` of another meaning."""
    found = (v for k, v in element.attrib.items() if k.endswith("}id"))
    return next((str(value) for value in found), "")


def _slide(package: Package, part: str, *, page: int) -> Iterator[Block]:
    root = package.tree(part)
    relations = package.relations(part)
    diagrams = [item.target for item in relations.values() if item.kind == "diagramData"]
    notes = [item.target for item in relations.values() if item.kind == "notesSlide"]
    yield from _shapes(child(root, "cSld", "spTree"), page)
    for target in diagrams:
        data = package.tree(target)
        points = data.iter("{*}p") if data is not None else ()
        yield Block("\n".join(filter(None, map(_paragraph, points))), page=page)
    for target in notes:
        words = [block.text for block in _shapes(child(package.tree(target), "cSld", "spTree"), 0)]
        if any(words):
            yield Block("\n".join(["Notes:", *filter(None, words)]), page=page)


def _shapes(tree: Element | None, page: int) -> Iterator[Block]:
    shapes = list(tree) if tree is not None else []
    for shape in sorted(shapes, key=_rank):
        name = name_of(shape)
        if name == "sp":
            yield from _shape(shape, page)
        elif name == "grpSp":
            yield from _shapes(shape, page)
        elif name == "AlternateContent":
            yield from _shapes(chosen(shape), page)
        elif name == "graphicFrame":
            for table in shape.iter("{*}tbl"):
                yield from row_blocks(row_lines(_rows(table)), page)


def _rank(shape: Element) -> int:
    """The title first, groups last."""
    if name_of(shape) == "grpSp":
        return 2
    return 0 if _placeholder(shape) in _TITLES else 1


def _placeholder(shape: Element) -> str:
    found = child(shape, "nvSpPr", "nvPr", "ph")
    return attribute(found, "type") if found is not None else ""


def _shape(shape: Element, page: int) -> Iterator[Block]:
    kind = _placeholder(shape)
    if kind in _REPEATED:
        return
    text = _text(child(shape, "txBody"))
    if kind in _TITLES:
        yield Block(" ".join(text.split()), level=2, page=page)
    else:
        yield Block(text, page=page)


def _rows(table: Element) -> Iterator[list[str]]:
    for row in children(table, "tr"):
        yield [_text(child(cell, "txBody")) for cell in children(row, "tc")]


def _text(body: Element | None) -> str:
    paragraphs = children(body, "p") if body is not None else ()
    return clean_text("\n".join(filter(None, map(_paragraph, paragraphs)))).strip()


def _paragraph(element: Element) -> str:
    return "".join(_pieces(element)).strip()


def _pieces(element: Element) -> Iterator[str]:
    for item in element:
        name = name_of(item)
        if name == "t":
            yield item.text or ""
        elif name == "br":
            yield "\n"
        elif name == "tab":
            yield "\t"
        elif name == "oMath":
            yield linear(item)
        elif name == "AlternateContent":
            yield from _pieces(chosen(item))
        elif not name.endswith("Pr"):
            yield from _pieces(item)
