"""Texts and tables of any size: pages, rows, progress and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.documents.parsing.clean import clean_text
from apps.documents.parsing.delimited import read_rows
from apps.documents.parsing.parse import parse, parse_file
from apps.documents.parsing.reading import PAGE_CHARS, read_pieces
from apps.documents.parsing.tables import row_lines
from apps.documents.parsing.types import Part, Source

MEMORY_MAX_MIB = 300
PART_MAX_CHARS = 1_000_000
SENTENCE = "The quick brown fox jumps over the lazy dog, as foxes like to do on sunny days.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def parts_of(path: Path, data: bytes, name: str) -> list[Part]:
    path.write_bytes(data)
    return list(parse(path, name))


def text_of(path: Path, data: bytes, name: str) -> str:
    return "".join(part.text for part in parts_of(path, data, name))


# Pages and parts


def test_a_small_text_is_one_page(file: Path) -> None:
    (part,) = parts_of(file, b"one\n\n\n\ntwo", "a.txt")
    assert part == Part(("one\n\ntwo\n",))


def test_form_feeds_part_pages_also_in_large_files(file: Path) -> None:
    pages = [f"page {number}\n" + SENTENCE * 300 for number in range(100)]
    parts = parts_of(file, "\f".join(pages).encode(), "a.txt")
    assert [page for part in parts for page in part.pages] == pages
    assert len(parts) > 1


def test_a_long_text_is_cut_at_the_ends_of_paragraphs(file: Path) -> None:
    text = (SENTENCE * 5 + "\n") * 3000
    parts = parts_of(file, text.encode(), "a.txt")
    pages = [page for part in parts for page in part.pages]
    assert "".join(pages) == text
    assert all(page.endswith("\n\n") for page in pages[:-1])
    assert max(map(len, pages)) <= PAGE_CHARS


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_a_text_without_line_ends_comes_in_bounded_pages(file: Path, name: str) -> None:
    parts = parts_of(file, b"word " * 600_000, name)
    assert "".join(part.text for part in parts).split() == ["word"] * 600_000
    assert max(len(page) for part in parts for page in part.pages) <= PAGE_CHARS + 1


def test_a_file_of_form_feeds_has_no_millions_of_pages(file: Path) -> None:
    parts = parts_of(file, b"x" + b"\f" * 1_000_000 + b"y", "a.txt")
    assert sum(len(part.pages) for part in parts) <= 20_001


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_depend_on_where_the_file_is_cut(file: Path, line_end: str) -> None:
    for shift in range(3):
        text = "é" * shift + (SENTENCE + "\n") * 30_000
        data = text.replace("\n", line_end).encode()
        assert text_of(file, data, "a.txt") == text


def test_characters_are_not_cut_between_pieces(file: Path) -> None:
    text = "日本語" * 700_000
    file.write_bytes(text.encode())
    assert "".join(piece for piece, _ in read_pieces(Source(file, "a", "text/plain"))) == text


def test_headings_of_a_large_markdown_file_stand_where_they_say(file: Path) -> None:
    block = (
        "## Part *{}*\n\n" + SENTENCE * 20 + "\n```\n# no heading\n```\n~~~\n```\n# nor this\n~~~\n"
    )
    data = ("---\n# front: 1\n---\n" + "".join(map(block.format, range(2000)))).encode()
    titles: list[str] = []
    for part in parts_of(file, data, "a.md"):
        for heading in part.headings:
            assert part.text.startswith(f"## Part *{len(titles)}*\n", heading.offset)
            titles.append(heading.title)
    assert titles == [f"Part {number}" for number in range(2000)]


def test_the_first_part_with_text_enough_tells_the_language(file: Path) -> None:
    english = "It was the best of times, it was the worst of times, said the old man to her.\n"
    file.write_bytes(b"1 2 3\n" * 200_000 + (english * 20_000).encode())
    languages = [part["language"] for part in parse_file(str(file), "a.txt")]
    assert languages[-1] == "en"


# Tables


def rows(text: str, **options: Any) -> list[list[str]]:
    return [row for row in read_rows(text.splitlines(keepends=True), **options) if row]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found_beside_quoted_ones(delimiter: str) -> None:
    text = f'"a,b;c|d"{delimiter}e\n"1,2;3|4"{delimiter}5\n'
    assert rows(text) == [["a,b;c|d", "e"], ["1,2;3|4", "5"]]


def test_a_comma_in_every_cell_is_no_delimiter() -> None:
    text = "name;price, in euro\nPear;1,50\nPlum;2,25\n"
    assert rows(text)[1] == ["Pear", "1,50"]


def test_excels_hint_names_the_delimiter_and_is_no_row() -> None:
    assert rows("sep=;\na;b,c\n1;2,3\n") == [["a", "b,c"], ["1", "2,3"]]


def test_a_tsv_keeps_commas() -> None:
    assert rows("a,b\tc\n1,2\t3\n", tabs=True) == [["a,b", "c"], ["1,2", "3"]]


def test_quoted_line_ends_and_formulas_stay_in_their_cells(file: Path) -> None:
    data = '\ufeffname,sum\n"two\r\nlines",=1+1\n@x,"say ""hi"""\n'.encode()
    assert text_of(file, data, "a.csv") == ('name: two lines; sum: =1+1\nname: @x; sum: say "hi"\n')


def test_ragged_rows_keep_what_they_have(file: Path) -> None:
    assert text_of(file, b"a,b\n1\n1,2,3\n\n,2\n", "a.csv") == "a: 1\na: 1; b: 2; 3\nb: 2\n"


def test_a_quote_that_is_never_closed_swallows_nothing(file: Path) -> None:
    data = 'name,size\n"5 inch,1\nPear,2\nPlum,3\n'
    assert text_of(file, data.encode(), "a.csv").endswith(
        "name: Pear; size: 2\nname: Plum; size: 3\n"
    )
    data = 'name,size\n"5 inch,1\n' + "Pear,2\n" * 300_000
    assert "name: Pear; size: 2\n" * 1000 in text_of(file, data.encode(), "a.csv")


def test_every_row_of_a_large_table_has_its_header_and_is_whole(file: Path) -> None:
    lines = [f'{number},"a, quoted\nnote {number}"' for number in range(60_000)]
    parts = parts_of(file, ("id,note\n" + "\n".join(lines)).encode(), "a.csv")
    pages = [page for part in parts for page in part.pages]
    assert len(parts) > 2
    assert all(len(page) < 51_000 for page in pages)
    assert "".join(pages).splitlines() == [
        f"id: {number}; note: a, quoted note {number}" for number in range(60_000)
    ]


def test_a_long_title_is_not_repeated_at_length() -> None:
    labelled = row_lines([["x" * 100_000, "b"], ["1", "2"], ["3", "4"]])
    assert all(len(line) < 300 for line in labelled)


# Size


MEASURED = """
import json, pathlib, re, sys, time
from apps.documents.parsing.parse import parse_file
start, first, largest, progress = time.perf_counter(), 0.0, 0, []
for part in parse_file(sys.argv[1], sys.argv[2]):
    first = first or time.perf_counter() - start
    largest = max(largest, sum(map(len, part["pages"])))
    progress.append(part["progress"])
# Not getrusage's maximum: that survives exec, and would be the test process's own.
status = pathlib.Path("/proc/self/status").read_text()
peak_kib = int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])
print(json.dumps([largest, progress, first, time.perf_counter() - start, peak_kib // 1024]))
"""


@dataclass(frozen=True)
class Run:
    """What a parser did in a process of its own."""

    largest: int  # characters of a part
    progress: list[float]  # of each part
    first_s: float
    total_s: float
    peak_mib: int


def run_apart(path: Path, name: str) -> Run:
    command = [sys.executable, "-c", MEASURED, str(path), name]
    done = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, check=True)
    return Run(*json.loads(done.stdout))


def write_repeated(path: Path, head: str, block: str, mib: int, encoding: str = "utf-8") -> None:
    with path.open("wb") as target:
        target.write(head.encode(encoding))
        data = block.encode(encoding) * max(1, 2**20 // len(block.encode(encoding)))
        while target.tell() < mib * 2**20:
            target.write(data)


HUGE: dict[str, tuple[str, str, str, str]] = {
    "table": ("a.csv", "id,name,note\n", '17,Müller & Söhne,"a, quoted\nnote"\n', "utf-8"),
    "legacy table": ("a.csv", "编号;名称\n", "17;你好世界这是一个测试\n", "gb18030"),
    "text": ("a.txt", "", SENTENCE + "\n", "utf-8"),
    "legacy text": ("a.txt", "", "Однажды, в студеную зимнюю пору, я из лесу вышел.\n", "cp1251"),
    "Markdown": ("a.md", "# Top\n", "## Part\n\n" + SENTENCE + "\n", "utf-8"),
    "one line": ("a.txt", "", "word ", "utf-8"),
    "one row": ("a.csv", "a,b\n", '"x",y,', "utf-8"),
    "blank lines": ("a.txt", "a", "\n", "utf-8"),
    "open quotes": ("a.csv", "a,b\n", '"x,y\n', "utf-8"),
}


def check_flat(run: Run, size_mib: int) -> None:
    assert run.peak_mib < MEMORY_MAX_MIB
    assert run.largest <= PART_MAX_CHARS
    assert run.progress == sorted(run.progress)
    assert run.progress[-1] == 1.0
    if len(run.progress) > 1:
        assert run.progress[0] < 4 / size_mib
        assert run.first_s < run.total_s


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGE)
def test_memory_stays_flat(file: Path, name: str) -> None:
    suffix, head, block, encoding = HUGE[name]
    write_repeated(file, head, block, 6, encoding)
    check_flat(run_apart(file, suffix), 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "text"])
def test_memory_stays_flat_for_200_megabytes(file: Path, name: str) -> None:
    suffix, head, block, encoding = HUGE[name]
    write_repeated(file, head, block, 200, encoding)
    run = run_apart(file, suffix)
    check_flat(run, 200)
    assert run.first_s < 5


# Characters


@pytest.mark.parametrize(
    "text", ["ﬁnance ＡＢＣ", "a\u202eb\u202c", "co\u00adop", "e\u0301", "“x”—y", "ﺔ 豈"]
)
def test_the_original_characters_stay(file: Path, text: str) -> None:
    assert text_of(file, text.encode(), "a.txt") == text + "\n"
    assert text_of(file, f"{text},1\n".encode(), "a.csv") == f"{text}; 1\n"


def test_what_cannot_be_stored_becomes_a_blank() -> None:
    assert clean_text("a\x00b\x07c\ud800d\ufffee\ufefff\x9bg") == "a b c d ef g"


def test_a_flood_of_blank_lines_takes_no_time() -> None:
    start = time.perf_counter()
    assert clean_text("a" + "\n \t" * 500_000 + "b") == "a\n\nb"
    assert time.perf_counter() - start < 2


# Kinds


@pytest.mark.parametrize(
    "words",
    [
        "BMP receptors", "BMI-1 as a biomarker", "PKD1 inhibits AMPK", "PK\u00a03", "MZ twins",
        "GIF89a is a format", "RIFF and WAVE", "ID3 tags", "OggS", "II* and MM*", "Rar! she said",
        "BZh is a prefix", "FORM and content", "%!PS is PostScript", "8BPS", "fLaC", "RAFT", "ELF",
        "7z archives", "ftyp isom", "{braces} of teeth", "@article in a text",
    ],
)  # fmt: skip
def test_words_that_begin_like_another_kind_of_file_are_words(file: Path, words: str) -> None:
    text = f"{words}, as the café's regulars know. It was opened in the spring of the year.\n"
    assert text_of(file, text.encode(), "notes.txt") == text


def test_so_they_are_in_a_legacy_encoding(file: Path) -> None:
    text = "BMP: die Größe des Grundstücks wird jährlich überprüft, spätestens im März.\n" * 4
    assert text_of(file, text.encode("cp1252"), "notes.txt") == text


def test_a_text_about_pdf_files_is_a_text(file: Path) -> None:
    text = "# How files begin\n\nA PDF begins with %PDF-1.7 and ends with %%EOF.\n"
    assert text_of(file, text.encode(), "notes.md") == text
