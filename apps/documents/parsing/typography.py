"""Lines of a PDF page with their font sizes, and which sizes are headings in this document.

PDF says how large a letter is drawn, not what it is. The size that most text has is the body's;
lines in clearly larger letters are headings, the larger the higher. The scale is made once, from
pages all over the document, so that a heading on page 1,900 has the level it would have on page 1.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium_c

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.types import Heading

_LARGER = 1.15  # than the body, for a heading
_BOLD_LARGER = 1.04
# Sizes nearer than this are one: scaling and rounding blur them.
_SAME_SIZE = 1.06
_LEVEL_MAX = 6
_TITLE_MAX_CHARS = 200
_TITLE_MAX_LINES = 3
# A line on this many of the pages looked at is a running head.
_RUNNING_MIN_PAGES = 3
_RUNNING_SHARE = 0.2
# Such a line may end in what differs: a section's number, a date.
_BEGINNING = 24
_TOP_LINES = 3
_HYPHEN = 2  # what PDFium gives for a hyphen at the end of a line, whose break it leaves out
_BOLD = re.compile(r"bold|black|heavy|semibold|demi", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,5}\.|[A-Z]\.|§ ?\d+)\s+\w")
_LEADERS = re.compile(r"(?:[.·…_]\s*){4,}")


@dataclass(frozen=True)
class Line:
    """One line of a page; `size` is the height of its letters in points, as drawn."""

    text: str
    size: float
    bold: bool


def page_lines(textpage: Any) -> list[Line]:
    """The lines of a page in PDFium's order; blank ones too."""
    chars = [_char(textpage, index) for index in range(textpage.count_chars())]
    lines: list[Line] = []
    start = 0
    for raw in re.split("\r\n|\r|\n", "".join(chars)):
        end = start + len(raw)
        first = next((index for index in range(start, end) if not chars[index].isspace()), -1)
        size, bold = _font(textpage, first) if first >= 0 else (0.0, False)
        lines.extend(Line(part, size, bold) for part in _dehyphenated(textpage, raw, start))
        start = end + (2 if "".join(chars[end : end + 2]) == "\r\n" else 1)
    return lines


def _char(textpage: Any, index: int) -> str:
    code = int(pdfium_c.FPDFText_GetUnicode(textpage, index))
    return chr(code) if code < 0x110000 else "\ufffd"


def _dehyphenated(textpage: Any, raw: str, start: int) -> Iterable[str]:
    """`raw` with its line-end hyphens and the breaks after them put back."""
    at = 0
    for index, char in enumerate(raw):
        if ord(char) == _HYPHEN and pdfium_c.FPDFText_IsHyphen(textpage, start + index) == 1:
            yield _plain(raw[at:index]) + "-"
            at = index + 1
    yield _plain(raw[at:])


def _plain(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):  # pairs, for letters past U+FFFF
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return " ".join(clean_text(text).split("\n")).rstrip()


def _font(textpage: Any, index: int) -> tuple[float, bool]:
    """Height of the letter in points, as its matrix scales it, and whether its font is bold."""
    matrix = pdfium_c.FS_MATRIX()
    size = float(pdfium_c.FPDFText_GetFontSize(textpage, index))
    if pdfium_c.FPDFText_GetMatrix(textpage, index, matrix):
        size *= math.hypot(matrix.c, matrix.d)
    flags, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    pdfium_c.FPDFText_GetFontInfo(textpage, index, name, len(name), flags)
    usable = math.isfinite(size) and 0 < size < 10_000
    return (round(size, 1) if usable else 0.0), bool(_BOLD.search(name.value.decode("latin-1")))


@dataclass(frozen=True)
class Scale:
    """Which lines of a document are headings, and how high."""

    body: float
    sizes: tuple[float, ...]  # of headings, largest first
    running: frozenset[str]  # lines that stand on many pages, or how those at their top begin

    def level(self, line: Line) -> int:
        """1 for the highest heading; 0 for a line that is none."""
        if not self.body or not _may_be_title(line.text) or _is_running(line.text, self.running):
            return 0
        if _is_larger(line, self.body):
            above = sum(1 for size in self.sizes if size > line.size * _SAME_SIZE)
            return min(above + 1, _LEVEL_MAX)
        if line.bold and line.size >= self.body * 0.97 and _NUMBERED.match(line.text):
            return min(len(self.sizes) + 1, _LEVEL_MAX)
        return 0


def measure(pages: Iterable[Sequence[Line]]) -> Scale:
    """The scale of a document, from some of its pages."""
    letters: Counter[float] = Counter()
    candidates: Counter[float] = Counter()
    seen_on: Counter[str] = Counter()
    large: list[Line] = []
    count = 0
    for lines in pages:
        count += 1
        seen_on.update({line.text for line in lines})
        at_top = [line.text for line in lines if line.text][:_TOP_LINES]
        seen_on.update({text[:_BEGINNING] for text in at_top if len(text) > _BEGINNING})
        for line in lines:
            letters[line.size] += len(line.text)
        large.extend(line for line in lines if _may_be_title(line.text))
    del letters[0.0]
    body = letters.most_common(1)[0][0] if letters else 0.0
    often = max(_RUNNING_MIN_PAGES, count * _RUNNING_SHARE)
    running = frozenset(text for text, pages_with in seen_on.items() if pages_with >= often)
    candidates.update(
        line.size
        for line in large
        if _is_larger(line, body) and not _is_running(line.text, running)
    )
    return Scale(body, _apart(candidates), running)


def _is_running(text: str, running: frozenset[str]) -> bool:
    return text in running or text[:_BEGINNING] in running


def _apart(sizes: Iterable[float]) -> tuple[float, ...]:
    kept: list[float] = []
    for size in sorted(sizes, reverse=True):
        if not kept or size * _SAME_SIZE < kept[-1]:
            kept.append(size)
    return tuple(kept[:_LEVEL_MAX])


def _is_larger(line: Line, body: float) -> bool:
    return body > 0 and line.size >= body * (_BOLD_LARGER if line.bold else _LARGER)


def _may_be_title(text: str) -> bool:
    if not 2 <= len(text) <= _TITLE_MAX_CHARS or text.endswith((",", ";")):
        return False
    letters = sum(char.isalpha() for char in text)
    return letters >= 2 and letters * 2 >= len(text.replace(" ", "")) and not _LEADERS.search(text)


def lay_out(lines: Sequence[Line], scale: Scale) -> tuple[str, list[Heading]]:
    """The page's text, a line a line, and its headings with their offsets in it."""
    text: list[str] = []
    headings: list[Heading] = []
    offset = run = 0  # run: lines of the heading just made
    for line in lines:
        level = scale.level(line)
        last = headings[-1] if headings else None
        if level and last and last.level == level and 0 < run < _TITLE_MAX_LINES:
            headings[-1] = Heading(last.offset, level, f"{last.title} {_title(line)}")
            run += 1
        elif level:
            headings.append(Heading(offset, level, _title(line)))
            run = 1
        elif line.text:
            run = 0
        text.append(line.text + "\n")
        offset += len(text[-1])
    laid = "".join(text)
    return (laid if laid.strip() else ""), headings


def _title(line: Line) -> str:
    return " ".join(line.text.split())
