"""The numbers that Word puts before headings and items of lists: `4.2 `, `(a) `, `• `.

They are nowhere in the text of a document, yet "see 4.2" refers to them. Counted as in the
standard: each level counts on until a higher one moves (ECMA-376 part 1, 17.9).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from apps.documents.parsing.ooxml import Element, Package, Relation, attribute, child, children

_LEVELS = 9
_BULLET = "• "
_COUNT_MAX = 1_000_000
_PLACE = re.compile(r"%([1-9])")


@dataclass(frozen=True)
class _Level:
    start: int
    form: str
    text: str  # with %1 for the number of the first level
    style: str  # of the paragraphs that are of this level without saying so


class Numbering:
    """Counts through one document, in its order."""

    def __init__(self, package: Package, relations: Iterable[Relation]) -> None:
        part = next((item.target for item in relations if item.kind == "numbering"), "")
        root = package.tree(part)
        lists = children(root, "abstractNum") if root is not None else ()
        self._levels = {attribute(item, "abstractNumId"): _levels(item) for item in lists}
        numbers = children(root, "num") if root is not None else ()
        self._list_of = {
            attribute(item, "numId"): _value(item, "abstractNumId") for item in numbers
        }
        self._counts: dict[str, list[int]] = defaultdict(lambda: [0] * _LEVELS)

    def next(self, number: str, level: int | None, style: str) -> str:
        """What stands before the next item of list `number`; "" for an unnumbered one.

        `level` is from 0; None: the one that the paragraph's style belongs to.
        """
        name = self._list_of.get(number, "")
        levels = self._levels.get(name)
        if levels is None:
            return _BULLET
        if level is None:
            level = next((at for at, item in levels.items() if style and item.style == style), 0)
        own = levels.get(level)
        if own is None or own.form == "bullet":
            return _BULLET
        counts = self._counts[name]
        counts[level] = counts[level] + 1 if counts[level] else own.start
        counts[level + 1 :] = [0] * (_LEVELS - level - 1)
        text = _PLACE.sub(lambda found: _shown(int(found[1]) - 1, counts, levels), own.text).strip()
        return f"{text} " if text else ""


def _levels(listing: Element) -> dict[int, _Level]:
    found = {}
    for item in children(listing, "lvl"):
        at, start = attribute(item, "ilvl"), _value(item, "start")
        if at.isdecimal() and int(at) < _LEVELS:
            found[int(at)] = _Level(
                start=min(int(start[:9]), _COUNT_MAX) if start.isdecimal() else 1,
                form=_value(item, "numFmt"),
                text=_value(item, "lvlText")[:100],
                style=_value(item, "pStyle"),
            )
    return found


def _shown(at: int, counts: list[int], levels: dict[int, _Level]) -> str:
    level = levels.get(at)
    if level is None or level.form == "none":
        return ""
    return _FORMS.get(level.form, str)(counts[at] or level.start)


def _letters(count: int) -> str:
    """a to z, then aa to zz."""
    return chr(ord("a") + (count - 1) % 26) * min((count - 1) // 26 + 1, 9) if count > 0 else ""


_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def _roman(count: int) -> str:
    if not 0 < count < 4000:
        return str(count)
    text = ""
    for value, sign in _ROMAN:
        text += sign * (count // value)
        count %= value
    return text


_FORMS: dict[str, Callable[[int], str]] = {
    "lowerLetter": _letters,
    "upperLetter": lambda count: _letters(count).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda count: _roman(count).upper(),
    "decimalZero": lambda count: f"{count:02}",
}


def _value(element: Element, name: str) -> str:
    found = child(element, name)
    return attribute(found, "val") if found is not None else ""
