"""Equations of Office documents (OMML) in one line of plain text: `(a)/(λ)`, `10^(−6)`.

After Murray Sargent's linear format (Unicode Technical Note 28), kept to what reads well.
"""

from __future__ import annotations

from collections.abc import Callable

from apps.documents.parsing.ooxml import Element, attribute, child, children, name_of

_DEPTH_MAX = 60


def linear(element: Element, depth: int = 0) -> str:
    """The equation under an `m:oMath` (or any part of one)."""
    if depth > _DEPTH_MAX:
        return ""
    name = name_of(element)
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return ""
    if name in _FORMS:
        return _FORMS[name](element, lambda part: _part(element, part, depth))
    if name in {"m", "eqArr"}:
        rows = [linear(row, depth + 1) for row in element if name_of(row) in {"mr", "e"}]
        return "[" + "; ".join(rows) + "]"
    joint = " " if name == "mr" else ""
    return joint.join(linear(item, depth + 1) for item in element)


Get = Callable[[str], str]


def _part(element: Element, name: str, depth: int) -> str:
    return ", ".join(linear(item, depth + 1) for item in children(element, name))


def _grouped(text: str) -> str:
    text = text.strip()
    return text if len(text) <= 1 or text.isalnum() else f"({text})"


def _fraction(_: Element, get: Get) -> str:
    return f"{_grouped(get('num'))}/{_grouped(get('den'))}"


def _power(_: Element, get: Get) -> str:
    lower, upper = get("sub"), get("sup")
    below = f"_{_grouped(lower)}" if lower else ""
    return get("e") + below + (f"^{_grouped(upper)}" if upper else "")


def _root(_: Element, get: Get) -> str:
    degree = get("deg")
    return (f"root({degree}, {get('e')})") if degree else f"√({get('e')})"


def _nary(element: Element, get: Get) -> str:
    sign = child(element, "naryPr", "chr")
    head = attribute(sign, "val") if sign is not None else "∫"
    lower, upper = get("sub"), get("sup")
    bounds = (f"_{_grouped(lower)}" if lower else "") + (f"^{_grouped(upper)}" if upper else "")
    return f"{head}{bounds} {get('e')}"


def _delimited(element: Element, get: Get) -> str:
    opening, closing = child(element, "dPr", "begChr"), child(element, "dPr", "endChr")
    left = "(" if opening is None else attribute(opening, "val")
    right = ")" if closing is None else attribute(closing, "val")
    return f"{left}{get('e')}{right}"


def _function(_: Element, get: Get) -> str:
    return f"{get('fName')} {get('e')}"


def _limit(_: Element, get: Get) -> str:
    return f"{get('e')}_{_grouped(get('lim'))}"


_FORMS: dict[str, Callable[[Element, Get], str]] = {
    "f": _fraction,
    "sSup": _power,
    "sSub": _power,
    "sSubSup": _power,
    "rad": _root,
    "nary": _nary,
    "d": _delimited,
    "func": _function,
    "limLow": _limit,
    "limUpp": _limit,
}
