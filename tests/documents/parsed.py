"""Files read in this process, their parts put together."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

from apps.documents.parsing.parse import parse_file
from apps.documents.parsing.types import Heading


@dataclass(frozen=True)
class Parsed:
    """A document whose parts have been put together."""

    kind: str
    language: str
    pages: tuple[str, ...]
    headings: tuple[Heading, ...]

    @property
    def text(self) -> str:
        return "".join(self.pages)


def parse(data: bytes, name: str, **options: Any) -> Parsed:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        parts = list(parse_file(file.name, name, **options))
    return joined(parts)


def joined(parts: list[dict[str, Any]]) -> Parsed:
    progress = [part["progress"] for part in parts]
    assert progress == sorted(progress)
    assert 0 < progress[-1] <= 1
    headings: list[Heading] = []
    offset = 0
    for part in parts:
        headings += [Heading(offset + at, level, title) for at, level, title in part["headings"]]
        offset += sum(map(len, part["pages"]))
    pages = tuple(page for part in parts for page in part["pages"])
    return Parsed(parts[-1]["kind"], parts[-1]["language"], pages, tuple(headings))


def titles(parsed: Parsed) -> list[tuple[int, str]]:
    """Levels and titles; each title has to stand where its offset says."""
    text = parsed.text
    for heading in parsed.headings:
        line = text[heading.offset :].partition("\n")[0]
        assert heading.title.split()[0] in line
    return [(heading.level, heading.title) for heading in parsed.headings]
