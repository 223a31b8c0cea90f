"""Documents to ingest: text-heavy, short, paged and huge ones, each unlike all others."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from fpdf import FPDF

BASE_DIR = Path(__file__).resolve().parents[2]
SCIFACT = BASE_DIR.parent / "shared" / "data" / "retrieval" / "scifact"
TEXT_BYTES = 20_000
_PAGE_CHARS = 2_500
_MB = 1_000_000

# What a sender gives: a path and the bytes.
File = tuple[str, bytes]


@cache
def _paragraphs() -> Sequence[str]:
    """The documentation's own paragraphs: real sentences, at hand everywhere."""
    pages = sorted((BASE_DIR / "docs").rglob("*.md"))
    texts = [text.strip() for page in pages for text in page.read_text().split("\n\n")]
    return [text for text in texts if len(text) > 150 and text[0].isalpha()]


def _text(seed: str, size: int) -> Iterator[str]:
    """Paragraphs in an order of their own, some `size` characters together."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    while size > 0:
        paragraph = chance.choice(_paragraphs())
        size -= len(paragraph) + 2
        yield paragraph


def heavy_texts(series: str, count: int) -> list[File]:
    """Markdown and plain text in turn, about TEXT_BYTES each."""
    files = []
    for number in range(count):
        name = f"{series}-{number}"
        paragraphs = list(_text(name, TEXT_BYTES))
        markdown = number % 2 == 0
        if markdown:
            paragraphs[::6] = [f"## Part {at}\n\n{text}" for at, text in enumerate(paragraphs[::6])]
        body = f"Document {name}.\n\n" + "\n\n".join(paragraphs)
        files.append((f"{name}.md" if markdown else f"{name}.txt", body.encode()))
    return files


def short_texts(series: str, count: int) -> Iterator[File]:
    """Abstracts of SciFact where they are at hand, else paragraphs of about their length."""
    if count and (SCIFACT / "corpus.jsonl").is_file():
        for round_number in range(1 + count // 5_000):
            for entry in islice(abstracts(), min(5_000, count)):
                text = f"{entry['title']} {entry['text']} ({series} {round_number})"
                yield f"{series}-{round_number}-{entry['_id']}.txt", text.encode()
            count -= 5_000
        return
    for number in range(count):
        name = f"{series}-{number}"
        yield f"{name}.txt", (f"{name}\n\n" + "\n\n".join(_text(name, 1_400))).encode()


def abstracts() -> Iterator[dict[str, str]]:
    with (SCIFACT / "corpus.jsonl").open() as lines:
        for line in lines:
            yield json.loads(line)


def papers(series: str, count: int, *, pages: int = 10) -> list[File]:
    """PDFs of text."""
    return [(f"{series}-{n}.pdf", paper(f"{series}-{n}", pages)) for n in range(count)]


def paper(seed: str, pages: int) -> bytes:
    document = FPDF(format="A4")
    document.set_auto_page_break(False)
    document.set_font("helvetica", size=9)
    for page in range(pages):
        document.add_page()
        document.set_xy(20, 15)
        words = "\n\n".join(_text(f"{seed} {page}", _PAGE_CHARS))
        document.multi_cell(
            170,
            4.5,
            f"{seed}, page {page}\n\n{words}".encode("latin-1", "replace").decode("latin-1"),
        )
    return bytes(document.output())


def write_table(path: Path, megabytes: int) -> None:
    """A CSV file of `megabytes` with text, numbers and dates in its rows."""
    chance = random.Random(megabytes)  # noqa: S311 - not a secret
    with path.open("w") as file:
        size, number = file.write("number,date,customer,amount,remark\n"), 0
        while size < megabytes * _MB:
            number += 1
            remark = chance.choice(_paragraphs())[:200].replace('"', "'").replace("\n", " ")
            date = f"20{number % 25:02}-{number % 12 + 1:02}-{number % 28 + 1:02}"
            size += file.write(f'{number},{date},c{number % 977},{number % 9973}.50,"{remark}"\n')
