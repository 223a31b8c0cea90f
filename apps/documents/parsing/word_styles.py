"""Which paragraphs of a Word document are headings or items of a list, by their styles."""

from __future__ import annotations

import re
from collections.abc import Iterable

from apps.documents.parsing.ooxml import Element, Package, Relation, attribute, child, children

_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)  # its name in every language's Word
_BASED_ON_MAX = 12
_BODY = 9  # the outline level of what is no heading


class Styles:
    def __init__(self, package: Package, relations: Iterable[Relation]) -> None:
        part = next((item.target for item in relations if item.kind == "styles"), "")
        root = package.tree(part)
        styles = children(root, "style") if root is not None else iter(())
        self._styles = {attribute(style, "styleId"): style for style in styles}

    def level(self, properties: Element | None) -> int:
        """Of the heading that a paragraph with these properties is, 1 to 6; 0 for none."""
        direct = _outline(properties)
        if direct is not None:
            return direct
        for style in self._chain(properties):
            name = _value(style, "name")
            if name.lower() == "title":
                return 1
            if (found := _HEADING.fullmatch(name)) is not None:
                return min(6, max(1, int(found[1])))
            if (outline := _outline(child(style, "pPr"))) is not None:
                return outline
        return 0

    def numbering(self, properties: Element | None) -> tuple[str, int | None, str] | None:
        """List, level (None: the style's own) and style of a numbered paragraph, or None."""
        style = _value(properties, "pStyle")
        own = child(properties, "numPr")
        inherited = (child(item, "pPr", "numPr") for item in self._chain(properties))
        wanted = own if own is not None else next((i for i in inherited if i is not None), None)
        number, level = _value(wanted, "numId"), _value(wanted, "ilvl")
        if own is not None and not number:  # a level of the style's list
            inherited = (child(item, "pPr", "numPr") for item in self._chain(properties))
            number = next((_value(i, "numId") for i in inherited if i is not None), "")
        if number in {"", "0"}:
            return None
        return number, (min(int(level[:2]), 8) if level.isdecimal() else None), style

    def _chain(self, properties: Element | None) -> Iterable[Element]:
        """The paragraph's style and those it is based on."""
        name = _value(properties, "pStyle")
        for _ in range(_BASED_ON_MAX):
            style = self._styles.get(name)
            if style is None:
                return
            yield style
            name = _value(style, "basedOn")


def _outline(properties: Element | None) -> int | None:
    value = _value(properties, "outlineLvl")
    if not value.isdigit():
        return None
    return 0 if int(value) >= _BODY else min(6, int(value) + 1)


def _value(element: Element | None, name: str) -> str:
    found = child(element, name)
    return attribute(found, "val") if found is not None else ""
