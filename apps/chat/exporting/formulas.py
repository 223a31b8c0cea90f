"""Formulas as a tree for the page maker, by way of the MathML that pages show.

What cannot be laid out makes the whole formula be shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lxml import etree

from apps.chat.rendering.mathematics import to_mathml

Node = list[Any]  # ["sym", "x"], ["frac", node, node], …: what `conversation.typ` lays out

_MOST_DEEP = 24
_UNSEEN = re.compile("[\u2061-\u2064\ufe00-\ufe0f]")
_OPENING, _CLOSING = set("([{⟨⌊⌈|‖"), set(")]}⟩⌋⌉|‖")
_OVER = {**dict.fromkeys("¯―‾̲̅", "overline"), "⏞": "overbrace"}
_UNDER = {**dict.fromkeys("_―̲", "underline"), "⏟": "underbrace"}


class _Unknown(Exception):
    """Something that cannot be laid out."""


def read_formula(latex: str, *, display: bool = False) -> Node | None:
    """The formula's tree, or None where it is to be shown as it was written."""
    mathml = to_mathml(latex, display=display)
    if mathml is None:
        return None
    try:
        return _node(etree.fromstring(mathml.replace("&ApplyFunction;", "")), 0)
    except (_Unknown, etree.XMLSyntaxError):
        return None


def _node(element: etree._Element, deep: int) -> Node:
    if deep > _MOST_DEEP:
        raise _Unknown
    tag = str(element.tag)
    if tag in ("mi", "mo", "mn", "mtext"):
        return _leaf(tag, _UNSEEN.sub("", element.text or "").replace("\xa0", " "))
    if tag == "mtable":
        return ["mat", [[_node(cell, deep + 2) for cell in row] for row in element]]
    if tag == "mspace":
        return ["space"] if element.get("width") else ["row", []]
    parts = [_node(each, deep + 1) for each in element]
    match tag, parts:
        case (("math" | "mrow" | "mstyle" | "mpadded" | "mtd"), _):
            return _row(parts, brackets=tag == "mrow")
        case "mfrac", [over, under]:
            return ["stack" if element.get("linethickness") == "0" else "frac", over, under]
        case "msqrt", _:
            return ["sqrt", _row(parts)]
        case "mroot", [base, degree]:
            return ["root", base, degree]
        case (("msub" | "msup" | "munder" | "mover"), [base, other]):
            return _scripts(tag, base, other)
        case (("msubsup" | "munderover"), [base, low, high]):
            return ["attach", base, low, high, tag == "munderover"]
    raise _Unknown


def _leaf(tag: str, text: str) -> Node:
    if not text:
        return ["row", []]
    if tag == "mi" and len(text) > 1:
        return ["op", text]
    return ["sym", text] if len(text) == 1 and tag != "mtext" else ["text", text]


def _scripts(tag: str, base: Node, other: Node) -> Node:
    mark = str(other[1]) if other[0] in ("sym", "text") else ""
    if tag == "mover" and (kind := _OVER.get(mark)):
        return [kind, base]
    if tag == "munder" and (kind := _UNDER.get(mark)):
        return [kind, base]
    if tag == "mover" and len(mark) == 1 and not mark.isalnum():
        return ["accent", base, mark]
    low, high = (other, None) if tag in ("msub", "munder") else (None, other)
    return ["attach", base, low, high, tag in ("munder", "mover")]


def _row(parts: Sequence[Node], *, brackets: bool = False) -> Node:
    """Brackets at the ends of a group, or before all of one (cases), grow with what they hold."""
    parts = [part for part in parts if part != ["row", []]]
    if len(parts) == 1:
        return parts[0]
    paired = len(parts) > 1 and _is(parts[0], _OPENING) and _is(parts[-1], _CLOSING)
    cases = len(parts) == 2 and _is(parts[0], _OPENING) and parts[1][0] == "mat"
    return ["lr", parts] if brackets and (paired or cases) else ["row", parts]


def _is(node: Node, characters: set[str]) -> bool:
    return node[0] == "sym" and node[1] in characters
