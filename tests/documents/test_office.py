"""Office files: every text once, in order, on its page; nothing of them is believed."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Callable, Mapping

import openpyxl
import pytest
from openpyxl.chart import BarChart

from apps.documents.errors import Damaged, PasswordProtected
from apps.documents.parsing import spreadsheet
from tests.documents.parsed import Parsed, parse, titles

_TRANSITIONAL = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PREFIXES = (
    'xmlns:r="http://r" xmlns:m="http://m" xmlns:mc="http://mc" xmlns:wps="http://wps" '
    'xmlns:v="http://v"'
)


def word(body: str, *, namespace: str = _TRANSITIONAL, before: str = "", **parts: str) -> bytes:
    """A DOCX; `parts` are more parts, by their relation, such as footnotes."""
    relations = [
        f'<Relationship Id="{kind}" Type="{_RELATIONS}/{kind}" Target="{kind}.xml"/>'
        for kind in parts
    ]
    entries = {
        "_rels/.rels": _list(
            f'<Relationship Id="a" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/>'
        ),
        "word/_rels/document.xml.rels": _list(*relations),
        "word/document.xml": (
            f'{before}<w:document xmlns:w="{namespace}" {_PREFIXES}>'
            f"<w:body>{body}</w:body></w:document>"
        ),
    }
    for kind, content in parts.items():
        entries[f"word/{kind}.xml"] = f'<w:{kind} xmlns:w="{namespace}">{content}</w:{kind}>'
    return zipped(entries)


def _list(*relations: str) -> str:
    return f"<Relationships>{''.join(relations)}</Relationships>"


def zipped(entries: Mapping[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def p(content: str, properties: str = "") -> str:
    run = content if content.startswith("<") else r(content)
    return f"<w:p><w:pPr>{properties}</w:pPr>{run}</w:p>"


def r(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def read(body: str, **parts: str) -> Parsed:
    return parse(word(body, **parts), "a.docx")


def box(text: str) -> str:
    """A text box as Word writes it: for newer programs and once more for older ones."""
    inside = f"<w:txbxContent>{p(text)}</w:txbxContent>"
    return (
        '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx>'
        f"{inside}</wps:txbx></w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox>{inside}"
        "</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )


def test_a_text_box_is_read_once_and_its_paragraph_too() -> None:
    assert read(p(box("in the box") + r("beside it"))).text == "in the box\n\nbeside it\n\n"


def test_notes_are_at_the_foot_of_their_page_and_endnotes_at_the_end() -> None:
    note = '<w:r><w:footnoteReference w:id="1"/></w:r>'
    end = '<w:r><w:endnoteReference w:id="1"/></w:r>'
    comment = '<w:r><w:commentReference w:id="7"/></w:r>'
    turn = '<w:r><w:br w:type="page"/></w:r>'
    parsed = read(
        p(r("first") + note + end + comment + turn + r("second")),
        footnotes=f'<w:footnote w:id="0" w:type="separator">{p("no")}</w:footnote>'
        f'<w:footnote w:id="1">{p("a footnote")}</w:footnote>',
        endnotes=f'<w:endnote w:id="1">{p("an endnote")}</w:endnote>',
        comments=f'<w:comment w:id="7" w:author="Ann">{p("a remark")}</w:comment>',
    )
    assert parsed.pages == (
        "first\n\na footnote\n\nComment by Ann: a remark\n\n",
        "second\n\nan endnote\n\n",
    )


def test_headers_and_footers_are_read_once() -> None:
    section = '<w:sectPr><w:headerReference r:id="hdr"/><w:headerReference r:id="hdr"/></w:sectPr>'
    parsed = read(p("body") + p("more", section) + section, hdr=p("at the head"))
    assert parsed.text.count("at the head") == 1


def test_deleted_text_and_field_codes_are_left_out() -> None:
    body = p(
        f"<w:del>{r('gone')}</w:del><w:ins>{r('new')}</w:ins>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r><w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom>"
    )
    assert read(body).text == "new\n\n"


def test_a_word_with_its_reading_is_read_as_the_word() -> None:
    body = p(
        f"<w:r><w:ruby><w:rt>{r('にほん')}</w:rt><w:rubyBase>{r('日本')}</w:rubyBase></w:ruby></w:r>"
    )
    assert read(body).text == "日本\n\n"


def test_page_breaks_part_pages_and_none_counts_twice() -> None:
    rendered = "<w:r><w:lastRenderedPageBreak/></w:r>"
    by_hand = '<w:r><w:br w:type="page"/></w:r>'
    parsed = read(
        p(r("one ") + rendered + r("two"))
        + p(by_hand)
        + p(rendered + r("three"))
        + p("four", "<w:pageBreakBefore/>")
        + p("still four", "<w:sectPr/>")
        + p(rendered + r("five"))
        + p("still five", '<w:sectPr><w:type w:val="continuous"/></w:sectPr>')
    )
    assert [page.split() for page in parsed.pages] == [
        ["one"], ["two"], ["three"], ["four", "still", "four"], ["five", "still", "five"],
    ]  # fmt: skip


def test_headings_are_told_by_style_name_outline_and_inheritance() -> None:
    styles = (
        '<w:style w:styleId="Ttl"><w:name w:val="Title"/></w:style>'
        '<w:style w:styleId="U1"><w:name w:val="heading 2"/></w:style>'
        '<w:style w:styleId="Own"><w:name w:val="Mine"/><w:basedOn w:val="U1"/></w:style>'
        '<w:style w:styleId="Loop"><w:name w:val="L"/><w:basedOn w:val="Loop"/></w:style>'
        '<w:style w:styleId="Out"><w:name w:val="O"/>'
        '<w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
    )
    body = "".join(
        p(name, f'<w:pStyle w:val="{name}"/>') for name in ("Ttl", "U1", "Own", "Loop", "Out")
    )
    assert titles(read(body, styles=styles)) == [(1, "Ttl"), (2, "U1"), (2, "Own"), (3, "Out")]


def test_numbers_of_headings_and_lists_are_counted() -> None:
    levels = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for at, form, text in (
            (0, "decimal", "%1"),
            (1, "decimal", "%1.%2"),
            (2, "lowerLetter", "(%3)"),
        )
    )
    numbering = (
        f'<w:abstractNum w:abstractNumId="5">{levels}</w:abstractNum>'
        '<w:abstractNum w:abstractNumId="6"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>'
        '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="5"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="6"/></w:num>'
    )
    styles = (
        '<w:style w:styleId="H"><w:name w:val="heading 1"/>'
        '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    )
    items = ((1, 1), (1, 2), (1, 2), (1, 1), (1, 2), (2, 0))
    body = p("Scope", '<w:pStyle w:val="H"/>') + "".join(
        p(
            f"item {at}",
            f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>',
        )
        for at, (number, level) in enumerate(items)
    )
    parsed = read(body, numbering=numbering, styles=styles)
    assert parsed.text.split("\n\n")[:-1] == [
        "1 Scope", "1.1 item 0", "(a) item 1", "(b) item 2", "1.2 item 3", "(a) item 4", "• item 5",
    ]  # fmt: skip
    assert titles(parsed) == [(1, "1 Scope")]


def cells(*texts: str) -> str:
    return "".join(f"<w:tc>{text if '<' in text else p(text)}</w:tc>" for text in texts)


def test_tables_keep_headers_nested_tables_and_merged_cells() -> None:
    inner = f"<w:tbl><w:tr>{cells('x', 'y')}</w:tr></w:tbl>"
    first, below = (f"<w:tcPr><w:vMerge{more}/></w:tcPr>" for more in (' w:val="restart"', ""))
    rows = (
        cells("Region", "Town", "Notes"),
        f"<w:tc>{first}{p('North')}</w:tc>" + cells("Kiel", inner),
        f"<w:tc>{below}{p('<w:r/>')}</w:tc>" + cells("Emden", "flat"),
    )
    body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>" + p("after")
    assert read(body).text == (
        "Region: North; Town: Kiel; Notes: x; y\nRegion: North; Town: Emden; Notes: flat\n\n"
        "after\n\n"
    )


def test_what_stands_in_content_controls_is_read() -> None:
    table = (
        f"<w:tbl><w:tr>{cells('A', 'B')}</w:tr>"
        f"<w:sdt><w:sdtContent><w:tr>{cells('1', '2')}</w:tr></w:sdtContent></w:sdt>"
        f"<w:tr>{cells('3', '4')}</w:tr></w:tbl>"
    )
    body = f"<w:sdt><w:sdtContent>{p('inside')}</w:sdtContent></w:sdt>" + table
    assert read(body).text == "inside\n\nA: 1; B: 2\nA: 3; B: 4\n\n"


def test_equations_are_one_line_of_text() -> None:
    fraction = (
        "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    )
    power = (
        "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>10</m:t></m:r></m:sup></m:sSup>"
    )
    body = p(r("So ") + f"<m:oMath>{fraction}<m:r><m:t>=</m:t></m:r>{power}</m:oMath>")
    assert read(body).text == "So (a+b)/2=x^10\n\n"


def test_strict_files_read_as_others_do() -> None:
    data = word(p(box("in the box") + r("beside")), namespace=_STRICT)
    assert parse(data, "a.docx").text == "in the box\n\nbeside\n\n"


def test_entities_are_neither_expanded_nor_fetched() -> None:
    doctype = (
        '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY a "ha">'
        '<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
    )
    data = word(p(r("plain &f; &c;")), before=doctype)
    assert "root:" not in (text := parse(data, "a.docx").text)
    assert "haha" not in text


@pytest.mark.parametrize(
    "data",
    [
        word("<w:p><w:r><w:t>never ended"),
        zipped({"word/document.xml": "<x/>"}),
        zipped({"word/document.xml": "0" * 150_000_000}),
    ],
    ids=["cut XML", "no relations", "bomb"],
)
def test_a_broken_file_is_called_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        parse(data, "a.docx")


def test_a_long_document_comes_in_parts_of_whole_pages() -> None:
    body = "".join(p(f"Paragraph {number} " + "word " * 200) for number in range(1000))
    parsed = parse(word(body), "a.docx")
    assert len(parsed.pages) > 9
    assert max(map(len, parsed.pages)) < 110_000
    assert parsed.text.count("Paragraph ") == 1000


def test_slides_have_their_title_first_and_their_notes_last() -> None:
    import pptx

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "label"
    slide.shapes.add_textbox(0, 0, 9, 9).text_frame.text = "words"
    table = slide.shapes.add_table(2, 2, 0, 0, 9, 9).table
    for row, column, text in ((0, 0, "Item"), (0, 1, "Price"), (1, 0, "Pear"), (1, 1, "3")):
        table.cell(row, column).text = text
    slide.shapes.title.text = "Prices"
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    buffer = io.BytesIO()
    deck.save(buffer)
    parsed = parse(buffer.getvalue(), "a.pptx")
    assert parsed.text.split("\n\n") == [
        "Prices", "words", "Item: Pear; Price: 3", "label", "Notes:\nsay it slowly", "",
    ]  # fmt: skip
    assert titles(parsed) == [(2, "Prices")]


def book() -> openpyxl.Workbook:
    made = openpyxl.Workbook()
    sheet = made.active
    sheet.title = "Sales"
    for row in (
        ["Sales of the year"],
        ["Item", "Price", "Since", "Sum", "Sold"],
        ["Pear", 3, dt.date(2024, 2, 3), "=B3*2", True],
        ["Plum", 0.1 + 0.2, dt.datetime(2024, 2, 3, 4, 5), 1234567890123456, None],  # noqa: DTZ001
        ["a\nb", -1.5, dt.time(3, 4), 1e300, "'=1+1"],
    ):
        sheet.append(row)
    sheet["A6"] = "merged"
    sheet.merge_cells("A6:C7")
    hidden = made.create_sheet("Secret")
    hidden["A1"] = "hidden words"
    hidden.sheet_state = "hidden"
    made.create_chartsheet("Chart").add_chart(BarChart())
    made.create_sheet("Empty")
    return made


def saved(made: openpyxl.Workbook) -> bytes:
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


SALES = (
    "Sales\n\nSales of the year\n"
    "Item: Pear; Price: 3; Since: 2024-02-03 00:00:00; Sold: TRUE\n"
    "Item: Plum; Price: 0.3; Since: 2024-02-03 04:05:00; Sum: 1234567890123456\n"
    "Item: a b; Price: -1.5; Since: 03:04:00; Sum: 1e+300; Sold: '=1+1\n"
    "Item: merged\n\n"
)


def test_sheets_give_values_dates_and_hidden_ones() -> None:
    parsed = parse(saved(book()), "a.xlsx")
    assert parsed.pages == (SALES, "Secret\n\nhidden words\n\n")
    assert titles(parsed) == [(2, "Sales"), (2, "Secret")]


def test_a_sheet_too_wide_to_be_held_is_streamed_and_reads_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spreadsheet, "_RECTANGLE_MAX_CELLS", 1)
    assert parse(saved(book()), "a.xlsx").pages == (SALES, "Secret\n\nhidden words\n\n")


def test_a_value_in_the_far_corner_costs_nothing() -> None:
    made = openpyxl.Workbook()
    made.active["A1"] = "near"
    made.active["XFD1048576"] = "far"
    assert parse(saved(made), "a.xlsx").text == "Sheet\n\nnear\nfar\n\n"


def test_numbers_without_a_header_stay_apart() -> None:
    made = openpyxl.Workbook()
    made.active.append([123456789012345, 1234567890123451])
    assert "123456789012345\t1234567890123451" in parse(saved(made), "a.xlsx").text


def test_a_list_that_lies_about_its_length_is_called_damaged() -> None:
    lie = '<sst count="1" uniqueCount="99999999999"><si><t>a</t></si></sst>'
    assert_damaged("xl/sharedStrings.xml", lambda _: lie)


def test_a_row_beyond_the_last_one_is_called_damaged() -> None:
    far = '<row r="99999999999"'
    assert_damaged("xl/worksheets/sheet1.xml", lambda old: old.replace('<row r="1"', far, 1))


def assert_damaged(part: str, change: Callable[[str], str]) -> None:
    with zipfile.ZipFile(io.BytesIO(saved(book()))) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries[part] = change(entries.get(part, b"").decode()).encode()
    with pytest.raises(Damaged):
        parse(zipped(entries), "a.xlsx")


def test_a_locked_opendocument_file_asks_for_its_password() -> None:
    manifest = "<m:manifest><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>"
    entries = {
        "mimetype": "application/vnd.oasis.opendocument.text", "META-INF/manifest.xml": manifest
    }  # fmt: skip
    with pytest.raises(PasswordProtected):
        parse(zipped(entries), "a.odt")
