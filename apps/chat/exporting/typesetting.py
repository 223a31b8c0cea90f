"""From the data of a conversation to PDF, by Typst: tagged, with an outline, fit to be archived.

Runs in the sandbox, so nothing of Django. The profile (PDF/A-2a and PDF/UA-1) has a use of its own
here: under it Typst refuses text that no font has a glyph for, and names it. Such characters are
then written as their code, and the file says so, rather than showing boxes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typst

_HERE = Path(__file__).parent
# In Typst itself.
_LATIN, _MONO, _MATH = "Libertinus Serif", "DejaVu Sans Mono", "New Computer Modern Math"
_SCRIPTS = (
    "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Bengali",
    "Noto Sans Tamil", "Noto Sans Telugu", "Noto Sans Thai", "Noto Sans Georgian",
    "Noto Sans Armenian", "WenQuanYi Micro Hei", "Noto Emoji", _MONO, _MATH,
)  # fmt: skip
# A word longer than this may be broken: it would run over the edge of the page.
_LONG_WORD = re.compile(r"\S{40}(?=\S)")
_MISSING = re.compile(r'the text `"((?:[^"\\]|\\.)*)"` could not be displayed')
_ESCAPE = re.compile(r"\\u\{([0-9a-fA-F]+)\}|\\(.)")
_ATTEMPTS = 6
_WITHOUT_GLYPH = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
_PROBE = b"""#let sheet = json(bytes(sys.inputs.sheet))
#set document(title: "Letters")
#set text(font: sheet.fonts, fallback: false)
#for letter in sheet.letters { box(letter) + " " }
"""


class NotLaidOut(Exception):
    """Typst made no pages of it."""

    code = "not_laid_out"


def typeset(data: dict[str, Any]) -> bytes:
    """The file. Raises NotLaidOut."""
    data = data | {
        "fonts": [_LATIN, *_SCRIPTS],
        "mono": [_MONO, _LATIN, *_SCRIPTS],
        "math": [_MATH, _LATIN, *_SCRIPTS],
    }
    shown = _Shown()
    shown.learn(_lacking(data))
    for _ in range(_ATTEMPTS):
        try:
            return _compile(_mapped(data, shown) | {"unshown": shown.has_codes})
        except typst.TypstError as exc:
            if not shown.learn(missing_in(exc.diagnostic)):
                raise NotLaidOut(exc.message.split("`")[0]) from exc
    raise NotLaidOut("Characters without a glyph remained.")


def _lacking(data: dict[str, Any]) -> Iterator[str]:
    """What no font has a glyph for, found on a page of single characters in a tenth of the time."""
    text = unicodedata.normalize("NFC", json.dumps(data, ensure_ascii=False))
    letters = {each for each in text if _needs_glyph(each)}
    private = {each for each in letters if unicodedata.category(each) == "Co"}
    yield from private  # the profile refuses those, with a glyph or without
    try:
        _compile({"fonts": data["fonts"], "letters": sorted(letters - private)}, source=_PROBE)
    except typst.TypstError as exc:
        yield from missing_in(exc.diagnostic)


def _needs_glyph(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) not in _WITHOUT_GLYPH


def missing_in(diagnostic: str) -> Iterator[str]:
    """The pieces of text that Typst says it has no glyph for."""
    for found in _MISSING.finditer(diagnostic):
        yield _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else m[2], found[1])


class _Shown:
    """Text as it can be shown: long words may break, characters without a glyph are codes."""

    def __init__(self) -> None:
        self._instead: dict[str, str] = {}
        self._pattern = re.compile("(?!)")
        self.has_codes = False

    def learn(self, missing: Iterator[str]) -> bool:
        """Take what has no glyph; False where it was known."""
        new = set(missing) - self._instead.keys() - {""}
        self._instead |= {text: _instead_of(text) for text in new}
        longest_first = sorted(self._instead, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self.has_codes = any(text.startswith("[U+") for text in self._instead.values())
        return bool(new)

    def __call__(self, text: str) -> str:
        # As the font's shaper will have it, and name it where it has no glyph.
        text = unicodedata.normalize("NFC", text)
        text = self._pattern.sub(lambda match: self._instead[match[0]], text)
        return _LONG_WORD.sub("\\g<0>\u200b", text)


def _instead_of(text: str) -> str:
    """The same in plain letters, if there is such a form; else its code."""
    plain = unicodedata.normalize("NFKC", text)
    if plain.isascii() and plain.isalnum():
        return plain
    return "".join(f"[U+{ord(each):04X}]" for each in text)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same data with every text changed; names of kinds and links stay as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, dict):
        return {
            key: each
            if key in ("kind", "href", "info", "fonts", "mono", "math")
            else _mapped(each, change)
            for key, each in value.items()
        }
    return value


@cache
def _source() -> bytes:
    return (_HERE / "conversation.typ").read_bytes()


@cache
def _fonts() -> typst.Fonts:
    """Typst's own and ours; none of the machine's, so that a file is the same everywhere."""
    return typst.Fonts(include_system_fonts=False, font_paths=[str(_HERE / "fonts")])


def _compile(data: dict[str, Any], *, source: bytes = b"") -> bytes:
    made = typst.compile(
        source or _source(),
        font_paths=_fonts(),
        format="pdf",
        sys_inputs={"sheet": json.dumps(data)},
        pdf_standards=["a-2a", "ua-1"],
    )
    return bytes(made)
