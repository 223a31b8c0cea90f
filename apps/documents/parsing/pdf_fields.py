"""What has been filled into a PDF's form or written on its pages, which is not in their text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import pypdfium2.raw as pdfium_c

from apps.documents.parsing.clean import clean_text

_ANNOTATIONS_MAX = 2000  # a page
_VALUE_MAX_BYTES = 200_000
_FILLED_IN = {
    pdfium_c.FPDF_FORMFIELD_TEXTFIELD,
    pdfium_c.FPDF_FORMFIELD_COMBOBOX,
    pdfium_c.FPDF_FORMFIELD_LISTBOX,
}
# Text typed on the page, and notes stuck to it.
_WRITTEN = {pdfium_c.FPDF_ANNOT_FREETEXT, pdfium_c.FPDF_ANNOT_TEXT}


def filled_in(page: Any, form: Any | None) -> Iterator[str]:
    """Lines such as `First name: Ann`, and notes. `form` is the document's, opened before."""
    for index in range(min(pdfium_c.FPDFPage_GetAnnotCount(page), _ANNOTATIONS_MAX)):
        annotation = pdfium_c.FPDFPage_GetAnnot(page, index)
        if annotation:
            try:
                text = _text(annotation, form)
            finally:
                pdfium_c.FPDFPage_CloseAnnot(annotation)
            if text:
                yield text


def _text(annotation: Any, form: Any | None) -> str:
    kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
    if kind in _WRITTEN:
        return _said(pdfium_c.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if kind != pdfium_c.FPDF_ANNOT_WIDGET or form is None:
        return ""
    if pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation) not in _FILLED_IN:
        return ""
    value = _said(pdfium_c.FPDFAnnot_GetFormFieldValue, form, annotation)
    label = _said(pdfium_c.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    return f"{label}: {value}" if label and value else value


def _said(function: Callable[..., int], *arguments: Any) -> str:
    """PDFium's answer in UTF-16, in one line: asked for its length first."""
    size = function(*arguments, None, 0)
    if not 2 < size <= _VALUE_MAX_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(pdfium_c.FPDF_WCHAR)), size)
    return " ".join(clean_text(buffer.raw[: size - 2].decode("utf-16-le", "replace")).split())
