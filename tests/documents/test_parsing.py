"""Every kind of file gives its text, pages and headings; every bad one a reason."""

from __future__ import annotations

import io
import zipfile

import pytest

from apps.documents.errors import (
    ArchiveRefused,
    Damaged,
    EmptyFile,
    NoTextFound,
    PasswordProtected,
    Unreadable,
    UnreadableKind,
)
from tests.documents.parsed import parse, titles

JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 4
RUSSIAN = "Однажды, в студеную зимнюю пору, я из лесу вышел; был сильный мороз.\n" * 4


def docx_bytes() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Install", 1)
    document.add_paragraph("Run the setup script. It is **not** Markdown.")
    document.add_heading("Linux", 2)
    table = document.add_table(2, 2)
    for row, column, words in ((0, 0, "Item"), (0, 1, "Price"), (1, 0, "Pear"), (1, 1, "3")):
        table.cell(row, column).text = words
    return saved(document)


def pptx_bytes() -> bytes:
    import pptx

    deck = pptx.Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = f"Body of slide {number}"
    return saved(deck)


def xlsx_bytes() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "Prices"
    for row in (["Item", "Price"], ["Pear", 3], ["Plum", 4]):
        book.active.append(row)
    return saved(book)


def saved(document: object) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)  # type: ignore[attr-defined]
    return buffer.getvalue()


def test_docx_keeps_headings_and_says_what_cells_mean() -> None:
    parsed = parse(docx_bytes(), "a.docx")
    assert titles(parsed) == [(1, "Install"), (2, "Linux")]
    assert "It is **not** Markdown." in parsed.text
    assert "Item: Pear; Price: 3" in parsed.text


def test_slides_are_pages_with_their_titles() -> None:
    parsed = parse(pptx_bytes(), "a.pptx")
    assert [page.split("\n")[0] for page in parsed.pages] == ["Slide 1", "Slide 2"]
    assert titles(parsed) == [(2, "Slide 1"), (2, "Slide 2")]


def test_spreadsheet_rows_carry_their_headers() -> None:
    parsed = parse(xlsx_bytes(), "a.xlsx")
    assert "Item: Plum; Price: 4" in parsed.text
    assert titles(parsed) == [(2, "Prices")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_rows_carry_their_headers(delimiter: str) -> None:
    rows = [["name", "price"], ["Pear", "3"], ['"two\nlines"', "4"]]
    data = "\n".join(delimiter.join(row) for row in rows).encode()
    assert parse(data, "a.csv").text == "name: Pear; price: 3\nname: two lines; price: 4\n"


def test_html_is_read_without_its_scripts() -> None:
    data = (
        b"<!doctype html><title>T</title><script>alert(1)</script><style>p{}</style>"
        b"<h1>Top</h1><p>A <a href='/x'>link</a> &lt;script&gt;x&lt;/script&gt;</p><h2>Sub</h2>"
        b"<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>"
    )
    parsed = parse(data, "a.html")
    assert titles(parsed) == [(1, "Top"), (2, "Sub")]
    assert "A link <script>x</script>" in parsed.text
    assert "A: 1; B: 2" in parsed.text
    assert "alert" not in parsed.text


def test_markdown_headings_are_found_outside_of_code() -> None:
    data = b"---\ntitle: x\n---\n# Top *em*\n\n```\n# code\n```\n\nSub\n---\n\ntext\n"
    parsed = parse(data, "a.md")
    assert titles(parsed) == [(1, "Top em"), (2, "Sub")]
    assert parsed.text == data.decode()


def test_pdf_keeps_pages_and_headings(guide_pdf: bytes) -> None:
    parsed = parse(guide_pdf, "a.pdf")
    assert len(parsed.pages) == 3
    assert all(f"Chapter {i}" in page for i, page in enumerate(parsed.pages, start=1))
    assert titles(parsed)[:3] == [(1, "Chapter 1"), (2, "Section 1.1"), (2, "Section 1.2")]
    assert parsed.language == "en"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (JAPANESE, "shift-jis"),
        (JAPANESE, "euc-jp"),
        (JAPANESE, "utf-16"),
        (RUSSIAN, "cp866"),
        (RUSSIAN, "cp1251"),
        ("Café crème brûlée, naïve façade, £100\n", "latin-1"),
        ("Grüße aus Köln, schöne Straße\n", "utf-8-sig"),
        ("plain words in wide letters\n" * 3, "utf-16-le"),
    ],
)
def test_text_in_any_usual_encoding_is_decoded(text: str, encoding: str) -> None:
    assert parse(text.encode(encoding), "a.txt").text == text


def test_line_ends_and_controls_are_made_plain() -> None:
    data = b"one\rtwo\r\nthree\x00\x07four\x0bfive"
    assert parse(data, "a.txt").text == "one\ntwo\nthree  four five\n"


def test_form_feeds_part_pages() -> None:
    assert parse(b"first\n\x0csecond\n", "a.txt").pages == ("first\n", "second\n")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.exe", "no suffix"])
def test_content_is_believed_over_the_name(name: str) -> None:
    parsed = parse(b"<html><body><h1>Not what it says</h1></body></html>", name)
    assert parsed.kind == "text/html"
    assert "Not what it says" in parsed.text


def zipped(**entries: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name.replace("__", "/"), data)
    return buffer.getvalue()


def protected_pdf() -> bytes:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.set_encryption(owner_password="owner", user_password="user")
    pdf.add_page()
    pdf.set_font("Helvetica", size=12)
    pdf.cell(text="hidden words")
    return bytes(pdf.output())


def blank_pdf() -> bytes:
    from fpdf import FPDF

    pdf = FPDF()
    pdf.add_page()
    return bytes(pdf.output())


BAD = {
    "nothing": (lambda: b"", EmptyFile),
    "blanks": (lambda: b"\n \t\n", EmptyFile),
    "zip": (lambda: zipped(a=b"x"), ArchiveRefused),
    "zip named docx": (lambda: zipped(a=b"x"), ArchiveRefused),
    "gzip": (lambda: b"\x1f\x8b\x08\x00" + bytes(40), ArchiveRefused),
    "program": (lambda: b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4, UnreadableKind),
    "protected": (protected_pdf, PasswordProtected),
    "blank pages": (blank_pdf, NoTextFound),
    "pdf in name only": (lambda: b"%PDF-1.4 and no more", Damaged),
    "bomb": (lambda: zipped(word__document=b"0" * 200_000_000), Unreadable),
    "cut docx": (lambda: docx_bytes()[:4000], Unreadable),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_says_why(name: str) -> None:
    make, error = BAD[name]
    with pytest.raises(error) as caught:
        parse(make(), f"{name}.docx")
    assert str(caught.value).endswith(".")
