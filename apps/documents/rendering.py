"""Drawing PDF pages and finding text on them, with PDFium. Runs inside the sandbox."""

from __future__ import annotations

import ctypes
import io
import unicodedata
from difflib import SequenceMatcher
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from apps.documents.errors import NoPageImage

DPI = 110
# Neither side of an image is longer: a poster is drawn smaller, whatever its size says.
_SIDE_MAX_PX = 2400
# Runs of fewer equal characters say nothing about where a passage is.
_RUN_MIN_CHARS = 10
_ALIGN_MAX_CHARS = 30_000
_GRID = 100_000  # PDFium answers in whole device units: a page is this many wide and high
_SOFT_HYPHENS = {"\u00ad", "\ufffe", "\x02"}


def render_page(path: str, page_number: int) -> bytes:
    """PNG of a page (from 1) at about 110 dpi. Raises NoPageImage."""
    with _open(path) as document:
        page = _page(document, page_number)
        width, height = page.get_size()
        if width <= 0 or height <= 0:
            raise NoPageImage("The page has no size.")
        scale = min(DPI / 72, _SIDE_MAX_PX / max(width, height))
        image = page.render(scale=scale).to_pil()
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "PNG", optimize=False, compress_level=6)
        return buffer.getvalue()


def find_boxes(
    path: str, page_number: int, text: str, start: int, end: int
) -> list[tuple[float, float, float, float]]:
    """Where `text[start:end]` stands on the page: (x, y, width, height) as fractions, 0 to 1.

    `text` is the page's text as parsed. PDFium's own differs from it in blanks, hyphens and
    ligatures, so both are compared without those.
    """
    with _open(path) as document:
        page = _page(document, page_number)
        textpage = page.get_textpage()
        drawn = [
            chr(pdfium_c.FPDFText_GetUnicode(textpage, i)) for i in range(textpage.count_chars())
        ]
        wanted = align(text, start, end, drawn)
        return [box for first, last in _runs(wanted) for box in _boxes(page, textpage, first, last)]


def align(text: str, start: int, end: int, drawn: list[str]) -> list[int]:
    """Indexes of the characters of `drawn` that are `text[start:end]`, in order."""
    page_letters, page_at = _letters(list(text))
    letters, at = _letters(drawn)
    first = next((i for i, where in enumerate(page_at) if where >= start), len(page_at))
    last = next((i for i, where in enumerate(page_at) if where >= end), len(page_at))
    passage = page_letters[first:last]
    if not passage:
        return []
    found = _nearest(letters, passage, first)
    if found >= 0:
        return at[found : found + len(passage)]
    if len(letters) > _ALIGN_MAX_CHARS:
        return []
    matcher = SequenceMatcher(None, letters, passage, autojunk=False)
    return [
        at[i]
        for block in matcher.get_matching_blocks()
        if block.size >= min(_RUN_MIN_CHARS, len(passage))
        for i in range(block.a, block.a + block.size)
    ]


def _nearest(letters: str, passage: str, expected: int) -> int:
    """The occurrence of `passage` that starts nearest to `expected`; -1 when there is none."""
    best, found = -1, letters.find(passage)
    while found >= 0:
        if best < 0 or abs(found - expected) < abs(best - expected):
            best = found
        found = letters.find(passage, found + 1)
    return best


def _letters(chars: list[str]) -> tuple[str, list[int]]:
    """The characters that count, made alike (NFKC, casefold), and which one each came from."""
    letters: list[str] = []
    at: list[int] = []
    for index, char in enumerate(chars):
        if char in _SOFT_HYPHENS or char == "-":
            continue
        for letter in unicodedata.normalize("NFKC", char).casefold():
            if not letter.isspace() and letter.isprintable():
                letters.append(letter)
                at.append(index)
    return "".join(letters), at


def _runs(indexes: list[int]) -> list[tuple[int, int]]:
    """Stretches of indexes with at most a few left-out characters between, as (first, last)."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and 0 <= index - runs[-1][1] <= 4:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _boxes(
    page: Any, textpage: Any, first: int, last: int
) -> list[tuple[float, float, float, float]]:
    boxes = []
    for i in range(textpage.count_rects(first, last - first + 1)):
        left, bottom, right, top = textpage.get_rect(i)
        x1, y1 = _to_fraction(page, left, top)
        x2, y2 = _to_fraction(page, right, bottom)
        x, y, width, height = min(x1, x2), min(y1, y2), abs(x2 - x1), abs(y2 - y1)
        if width > 0 and height > 0:
            boxes.append((x, y, width, height))
    return boxes


def _to_fraction(page: Any, x: float, y: float) -> tuple[float, float]:
    """A point of the page as it is shown: turned and cropped."""
    across, down = ctypes.c_int(), ctypes.c_int()
    pdfium_c.FPDF_PageToDevice(page, 0, 0, _GRID, _GRID, 0, x, y, across, down)
    return _clamp(across.value / _GRID), _clamp(down.value / _GRID)


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))


def _open(path: str) -> Any:
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as exc:
        raise NoPageImage("The file cannot be drawn.") from exc


def _page(document: Any, number: int) -> Any:
    if not 1 <= number <= len(document):
        raise NoPageImage(f"The document has no page {number}.")
    try:
        return document[number - 1]
    except pdfium.PdfiumError as exc:
        raise NoPageImage("The page cannot be drawn.") from exc
