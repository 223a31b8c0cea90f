"""A hundred files of mixed kinds and sizes, the same ones for the same seed."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

from docx import Document as Word
from fpdf import FPDF

FAILS = "broken/report.pdf"  # by its nature: it is no PDF, whatever it says
REPLACED = "manuals/replaced.md"

_TEXT = (
    "harbour lantern archive meadow granite copper violin orchard saddle thunder marble cobalt "
    "ferry cedar quartz ribbon kettle compass timber sparrow barley cinder walnut beacon anchor "
    "pepper garnet heron saffron cloak tunnel basin ladder furnace glacier pulley"
)
_WORDS = _TEXT.split()


def make_corpus(folder: Path, *, seed: int, documents: int = 100, large: int = 2) -> None:
    """`documents` files under `folder`: `large` of them are indexed in pieces, one fails."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    makers = [_markdown, _text, _csv, _pdf, _word]
    for number in range(documents - large - 2):
        make = makers[number % len(makers)]
        make(folder / f"shelf{number % 7}", f"paper{number:03}", chance, chance.randint(1, 12))
    for number in range(large):
        # One passage a sentence or so; above 1,024 of them a document is staged.
        _text(folder / "large", f"large{number}", chance, 880 + 40 * number)
    write_replaced(folder, version=1)
    broken = folder / FAILS
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_bytes(b"%PDF-1.7\nnothing else")


def write_replaced(folder: Path, *, version: int) -> None:
    """The file that has two versions."""
    path = folder / REPLACED
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(version)  # noqa: S311
    path.write_text(f"# Version {version}\n\n" + "\n\n".join(_sentences(chance, 6)) + "\n")


def _sentence(chance: random.Random) -> str:
    """About 24 words: a passage of its own where passages have 32 tokens at most."""
    words = chance.choices(_WORDS, k=chance.randint(20, 28))
    return f"{words[0].capitalize()} {' '.join(words[1:])} {chance.randint(1, 9999)}."


def _sentences(chance: random.Random, count: int) -> list[str]:
    return [_sentence(chance) for _ in range(count)]


def _markdown(folder: Path, name: str, chance: random.Random, size: int) -> None:
    parts = [f"# {name}"]
    for sentence in _sentences(chance, size):
        parts += [f"## {chance.choice(_WORDS)}", sentence]
    _write(folder / f"{name}.md", "\n\n".join(parts).encode())


def _text(folder: Path, name: str, chance: random.Random, size: int) -> None:
    _write(folder / f"{name}.txt", "\n\n".join([name, *_sentences(chance, size)]).encode())


def _csv(folder: Path, name: str, chance: random.Random, size: int) -> None:
    rows = [f"id,{name},place,count"]
    for number in range(3 * size):
        first, second = chance.choices(_WORDS, k=2)
        rows.append(f"{number},{first},{second},{chance.randint(1, 999)}")
    _write(folder / f"{name}.csv", "\n".join(rows).encode())


def _pdf(folder: Path, name: str, chance: random.Random, size: int) -> None:
    pdf = FPDF()
    pdf.set_creation_date(datetime(2026, 1, 1, tzinfo=UTC))
    pdf.set_font("Helvetica", size=11)
    for at in range(0, size, 4):
        pdf.add_page()
        pdf.multi_cell(0, 7, f"{name} {at}", new_x="LMARGIN", new_y="NEXT")
        for sentence in _sentences(chance, min(4, size - at)):
            pdf.multi_cell(0, 7, sentence, new_x="LMARGIN", new_y="NEXT")
    _write(folder / f"{name}.pdf", bytes(pdf.output()))


def _word(folder: Path, name: str, chance: random.Random, size: int) -> None:
    word = Word()
    word.add_heading(name, level=1)
    for sentence in _sentences(chance, size):
        word.add_paragraph(sentence)
    folder.mkdir(parents=True, exist_ok=True)
    word.save(str(folder / f"{name}.docx"))


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
