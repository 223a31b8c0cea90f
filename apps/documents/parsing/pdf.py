"""PDF, page by page with PDFium, so that memory does not grow with the document."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from apps.documents.errors import Damaged, NoTextFound, PasswordProtected
from apps.documents.parsing import ocr
from apps.documents.parsing.kinds import PDF
from apps.documents.parsing.pdf_fields import filled_in
from apps.documents.parsing.types import Heading, Part, Source
from apps.documents.parsing.typography import Line, Scale, lay_out, measure, page_lines

_PART_PAGES = 50
_PART_CHARS = 300_000
# The first part is small: there is something to see at once.
_FIRST_PART_PAGES = 10
# Pages looked at, all over the document, to tell headings' sizes.
_SAMPLE_PAGES = 120
# A page with fewer visible characters than this may still be a picture of text.
_SCAN_MAX_CHARS = 20


class PdfParser:
    def reads(self, kind: str) -> bool:
        return kind == PDF

    def parse(self, source: Source) -> Iterator[Part]:
        with tempfile.TemporaryDirectory() as scratch, closing(_open(source.path, scratch)) as pdf:
            found = False
            for part in _parts(pdf, source):
                found = found or bool(part.text.strip())
                yield part
        if not found:
            raise NoTextFound(
                "No text was found: the pages are blank, or pictures of text, as scans are. "
                "The text of a scan has to be recognised (OCR) first."
            )


def _open(path: Path, scratch: str) -> Any:
    """The document; rebuilt by QPDF where PDFium finds no page in it."""
    try:
        pdf = pdfium.PdfDocument(path)
        if len(pdf) > 0:
            return pdf
        pdf.close()
    except pdfium.PdfiumError as exc:
        if _error_code(exc) in {pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY}:
            raise PasswordProtected(
                "The file is protected by a password. Enter it, or upload a copy without one."
            ) from exc
    repaired = Path(scratch) / "repaired.pdf"
    _repair(path, repaired)
    try:
        return pdfium.PdfDocument(repaired)
    except pdfium.PdfiumError as exc:
        raise _damaged() from exc


def _form(pdf: Any) -> Any | None:
    """The form that the document's fields belong to; before any page is loaded."""
    if pdf.get_formtype() != pdfium_c.FORMTYPE_ACRO_FORM:
        return None
    pdf.init_forms()
    return pdf.formenv.raw if pdf.formenv else None


def _error_code(exc: pdfium.PdfiumError) -> int:
    return int(getattr(exc, "err_code", 0) or 0)


def _repair(path: Path, target: Path) -> None:
    import pikepdf  # seldom needed, and of some size

    try:
        with pikepdf.open(path) as pdf:
            if not len(pdf.pages):
                raise _damaged()
            pdf.save(target)
    except pikepdf.PasswordError as exc:
        raise PasswordProtected(
            "The file is protected by a password. Enter it, or upload a copy without one."
        ) from exc
    except (pikepdf.PdfError, OSError, ValueError, RuntimeError) as exc:
        raise _damaged() from exc


def _damaged() -> Damaged:
    return Damaged(
        "The file cannot be read: it is damaged, or not what its name says. Open it in its "
        "program, save it again, and upload the copy."
    )


def _parts(pdf: Any, source: Source) -> Iterator[Part]:
    count = len(pdf)
    form = _form(pdf)
    scale = _scale(pdf, count)
    pages: list[str] = []
    headings: list[Heading] = []
    chars, limit = 0, _FIRST_PART_PAGES
    for number in range(count):
        text, found, recognised = _read(pdf, number, scale, form, ocr_wanted=source.ocr)
        headings.extend(Heading(chars + item.offset, item.level, item.title) for item in found)
        pages.append(text)
        chars += len(text)
        full = len(pages) >= limit or chars >= _PART_CHARS or recognised
        if full or number == count - 1:
            yield Part(tuple(pages), tuple(headings), (number + 1) / count)
            pages, headings, chars, limit = [], [], 0, _PART_PAGES


def _scale(pdf: Any, count: int) -> Scale:
    step = max(1, count // _SAMPLE_PAGES)
    return measure(_lines(pdf, number)[0] for number in range(0, count, step))


def _read(
    pdf: Any, number: int, scale: Scale, form: Any | None, *, ocr_wanted: bool
) -> tuple[str, list[Heading], bool]:
    """Text and headings of a page (from 0), and whether its text had to be recognised."""
    lines, extra = _lines(pdf, number, form)
    text, headings = lay_out([*lines, *extra], scale)
    if not ocr_wanted or sum(len(line.text) for line in lines) > _SCAN_MAX_CHARS:
        return text, headings, False
    recognised = ocr.recognise_page(pdf, number)
    if len(recognised) <= len(text):
        return text, headings, True
    return recognised + "".join(f"{line.text}\n" for line in extra), [], True


def _lines(pdf: Any, number: int, form: Any | None = None) -> tuple[list[Line], list[Line]]:
    """Lines of a page, and what is filled in or noted on it.

    A page that cannot be loaded counts as blank: the others are still worth reading.
    """
    with suppress(pdfium.PdfiumError), closing(pdf[number]) as page:
        extra = [Line(text, 0.0, bold=False) for text in filled_in(page, form)]
        with closing(page.get_textpage()) as textpage:
            return page_lines(textpage), extra
    return [], []
