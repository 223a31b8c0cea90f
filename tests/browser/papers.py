"""Files that the browser tests upload."""

from __future__ import annotations

from collections.abc import Sequence

from fpdf import FPDF

PAGE_HEIGHT_MM = 297.0


def pdf(pages: Sequence[Sequence[tuple[float, str]]], *, password: str = "") -> bytes:
    """A4 pages with text at given heights: (millimetres from the top, text)."""
    document = FPDF(format="A4")
    document.set_auto_page_break(False)
    document.set_font("helvetica", size=12)
    for lines in pages:
        document.add_page()
        for top_mm, text in lines:
            document.set_xy(20, top_mm)
            document.multi_cell(170, 7, text)
    if password:
        document.set_encryption(owner_password=password, user_password=password)
    return bytes(document.output())
