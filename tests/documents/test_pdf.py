"""PDFs of any length come page by page, with headings of one scale, and give what is on them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2 as pdfium
import pytest
from fpdf import FPDF

from apps.documents.errors import Damaged, NoTextFound
from apps.documents.parsing import ocr
from apps.documents.parsing.parse import parse as parts_of
from apps.documents.rendering import find_boxes
from tests.documents.parsed import parse, titles

BODY = "The river office keeps its records on the upper floor, where water never comes."


def made(pages: int, *, chapter_pages: int = 10, head: str = "") -> FPDF:
    pdf = FPDF()
    for number in range(pages):
        pdf.add_page()
        if head:
            write(pdf, 16, f"{head} {number + 1}")
        if number % chapter_pages == 0:
            write(pdf, 22, f"Chapter {number // chapter_pages + 1}")
        write(pdf, 14, f"Section {number + 1}")
        write(pdf, 11, f"Page {number + 1}. {BODY}")
    return pdf


def write(pdf: FPDF, size: float, words: str) -> None:
    pdf.set_font("Helvetica", size=size)
    pdf.multi_cell(0, size * 0.6, words, new_x="LMARGIN", new_y="NEXT")


def saved(pdf: FPDF) -> bytes:
    return bytes(pdf.output())


def test_a_long_document_comes_in_parts_with_headings_of_one_scale(tmp_path: Path) -> None:
    path = tmp_path / "long.pdf"
    path.write_bytes(saved(made(300)))
    parts = list(parts_of(path, "long.pdf"))
    assert len(parts[0].pages) <= 10
    assert all(len(part.pages) <= 50 for part in parts)
    assert sum(len(part.pages) for part in parts) == 300
    progress = [part.progress for part in parts]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    levels = {(item.title.split()[0], item.level) for part in parts for item in part.headings}
    assert levels == {("Chapter", 1), ("Section", 2)}


def test_every_page_stands_where_its_number_says() -> None:
    parsed = parse(saved(made(70)), "a.pdf")
    assert all(f"Page {number}. " in page for number, page in enumerate(parsed.pages, start=1))


def test_running_heads_are_no_headings() -> None:
    parsed = parse(saved(made(12, head="Handbook of the river office, page")), "a.pdf")
    assert not [title for _, title in titles(parsed) if title.startswith("Handbook")]


def test_a_heading_of_two_lines_is_one() -> None:
    pdf = FPDF()
    pdf.add_page()
    write(pdf, 20, "A title so long that it takes more than a single line of the page it is on")
    write(pdf, 11, BODY * 5)
    assert len(titles(parse(saved(pdf), "a.pdf"))) == 1


def test_a_line_end_hyphen_and_its_break_are_kept(tmp_path: Path) -> None:
    pdf = FPDF()
    pdf.add_page()
    write(pdf, 11, "The con-\ntrolled substances are kept apart.")
    path = tmp_path / "a.pdf"
    path.write_bytes(saved(pdf))
    text = parse(path.read_bytes(), "a.pdf").text
    assert "con-\ntrolled" in text
    start = text.index("con-")
    assert len(find_boxes(str(path), 1, text, start, start + len("con-\ntrolled"))) == 2


def test_a_page_that_cannot_be_loaded_leaves_the_others() -> None:
    with pikepdf.open(io.BytesIO(saved(made(3)))) as pdf:
        pdf.pages[1].obj.MediaBox = pikepdf.Name.Nonsense
        pdf.pages[1].obj.Contents = pikepdf.Name.Nonsense
        parsed = parse(bytes_of(pdf), "a.pdf")
    assert "Page 1" in parsed.pages[0]
    assert "Page 3" in parsed.pages[2]


def bytes_of(pdf: Any) -> bytes:
    buffer = io.BytesIO()
    pdf.save(buffer)
    return buffer.getvalue()


def test_a_file_without_a_table_of_its_objects_is_rebuilt() -> None:
    data = saved(made(2))
    parsed = parse(data[: data.rindex(b"xref")], "a.pdf")
    assert "Page 2" in parsed.pages[1]


def test_what_is_filled_into_a_form_is_read() -> None:
    with pikepdf.open(io.BytesIO(saved(made(1)))) as pdf:
        field = pdf.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Widget, FT=pikepdf.Name.Tx,
                T="name", TU="First name", V="Ann", Rect=[0, 0, 9, 9],
            )
        )  # fmt: skip
        note = pikepdf.Dictionary(
            Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.FreeText, Contents="a remark",
            Rect=[0, 0, 9, 9],
        )  # fmt: skip
        pdf.pages[0].Annots = pdf.make_indirect(pikepdf.Array([field, pdf.make_indirect(note)]))
        pdf.Root.AcroForm = pikepdf.Dictionary(Fields=[field])
        text = parse(bytes_of(pdf), "a.pdf").text
    assert text.endswith("First name: Ann\na remark\n")


@pytest.mark.parametrize("data", [b"%PDF-1.7", b"%PDF-1.7\n" + bytes(range(256)) * 40])
def test_what_only_begins_like_a_pdf_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        parse(data, "a.pdf")


def scanned(words: str) -> tuple[bytes, bytes]:
    """A page as a picture: as PDF and as PNG."""
    pdf = FPDF()
    pdf.add_page()
    write(pdf, 28, words)
    with pdfium.PdfDocument(saved(pdf)) as document:
        image = document[0].render(scale=2).to_pil()
    png = io.BytesIO()
    image.save(png, "PNG")
    scan = FPDF()
    scan.add_page()
    scan.image(io.BytesIO(png.getvalue()), w=190)
    return saved(scan), png.getvalue()


@pytest.mark.parametrize("kind", [0, 1], ids=["pdf", "png"])
def test_a_scan_has_no_text_until_it_is_recognised(kind: int) -> None:
    data = scanned("Harbour rules")[kind]
    with pytest.raises(NoTextFound, match="recognised"):
        parse(data, "scan")
    if ocr.available():
        assert "Harbour rules" in parse(data, "scan", ocr=True).text


@pytest.mark.parametrize("kind", [0, 1], ids=["pdf", "png"])
def test_without_language_data_a_scan_has_no_text(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ocr, "_folder", lambda: None)
    assert ocr.languages() == []
    with pytest.raises(NoTextFound):
        parse(scanned("Harbour rules")[kind], "scan", ocr=True)


def test_recognising_leaves_pages_with_text_as_they_are() -> None:
    data = saved(made(2))
    assert parse(data, "a.pdf", ocr=True).pages == parse(data, "a.pdf").pages
