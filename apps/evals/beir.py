"""A folder in BEIR layout, read line by line: corpus.jsonl, queries.jsonl, qrels/<split>.tsv.

A line that cannot be read ends the reading with its number: figures over a part of a corpus would
be those of another corpus. What is merely odd (ids given twice, texts that are empty, judgements
of what is not there) is counted.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.evals.errors import FolderUnreadable

LINE_MAX_CHARS = 64 * 1024 * 1024
KEY_MAX_CHARS = 200  # of LabelledQuestion.key
_PATH_ID_MAX_CHARS = 150
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,149}")


@dataclass(frozen=True)
class Passage:
    """A row of the corpus: one document."""

    id: str
    title: str
    text: str

    @property
    def path(self) -> str:
        return f"{path_of(self.id)}.md"

    @property
    def content(self) -> bytes:
        """Markdown, whose source is the text: the title is its heading, the text as it stands."""
        title = " ".join(self.title.split())
        body = f"# {title}\n\n{self.text}\n" if title else f"{self.text}\n"
        return body.encode("utf-8", "replace")

    @property
    def is_empty(self) -> bool:
        return not self.title.strip() and not self.text.strip()


@dataclass(frozen=True)
class Query:
    """A question. `unanswerable`: its metadata says that the corpus does not answer it."""

    id: str
    text: str
    answer: str
    unanswerable: bool

    @property
    def key(self) -> str:
        return self.id if len(self.id) <= KEY_MAX_CHARS else _digest(self.id)


@dataclass
class Folder:
    """`first`: only so many rows of the corpus, and the questions that those alone answer."""

    path: Path
    split: str = "test"
    first: int | None = None
    odd: Counter[str] = field(default_factory=Counter)

    def check(self) -> None:
        """Raises FolderUnreadable where a file is missing."""
        for path in (self._corpus, self._queries, self._qrels):
            if not path.is_file():
                raise FolderUnreadable(f"{path} is not there. {self._layout()}")

    def passages(self) -> Iterator[Passage]:
        """Rows of the corpus, of ids given twice the first. Raises FolderUnreadable."""
        seen: set[str] = set()
        twice = 0
        for where, row in _objects(self._corpus):
            if self.first is not None and len(seen) >= self.first:
                break
            id = _id(row, where)
            if id in seen:
                twice += 1
                continue
            seen.add(id)
            yield Passage(id, _text(row, "title", where), _text(row, "text", where))
        self.odd["passage ids given twice"] = twice

    def queries(self) -> Iterator[Query]:
        """Questions, of ids given twice the first. Raises FolderUnreadable."""
        seen: set[str] = set()
        for where, row in _objects(self._queries):
            query = _query(row, where)
            if query.key in seen:
                self.odd["question ids given twice"] += 1
            elif not query.text.strip():
                self.odd["questions without text"] += 1
            else:
                seen.add(query.key)
                yield query

    def judgements(self) -> dict[str, dict[str, int]]:
        """Grades above 0 by question and passage. Raises FolderUnreadable."""
        found: dict[str, dict[str, int]] = {}
        for number, line in _lines(self._qrels):
            parts = line.split("\t") if "\t" in line else line.split()
            if len(parts) == 4:  # TREC's, with its iteration
                parts.pop(1)
            if number == 1 and parts[-1].strip().casefold() in {"score", "relevance", "rel"}:
                continue
            grade = _grade(parts, f"{self._qrels}, line {number}")
            if grade > 0:
                found.setdefault(parts[0].strip(), {})[parts[1].strip()] = grade
        return found

    @property
    def _corpus(self) -> Path:
        return self.path / "corpus.jsonl"

    @property
    def _queries(self) -> Path:
        return self.path / "queries.jsonl"

    @property
    def _qrels(self) -> Path:
        return self.path / "qrels" / f"{self.split}.tsv"

    def _layout(self) -> str:
        splits = ", ".join(sorted(path.stem for path in self.path.glob("qrels/*.tsv"))[:10])
        there = f" Splits there: {splits} (--split)." if splits else ""
        return f"A BEIR folder has corpus.jsonl, queries.jsonl and qrels/{self.split}.tsv.{there}"


def path_of(id: str) -> str:
    """A file's name for an id, whatever it is made of: alike for equal ids only."""
    if _PLAIN_ID.fullmatch(id):
        return id
    quoted = urllib.parse.quote(id, safe="").replace(".", "%2E")
    # With a mark that no plain id has, so that two kinds of names never meet.
    return f"%{quoted}" if len(quoted) < _PATH_ID_MAX_CHARS else f"%%{_digest(id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _query(row: dict[str, Any], where: str) -> Query:
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    answers = metadata.get("answers") or metadata.get("answer") or ""
    # Any of them is right: one a line, as gates of routes read them.
    answer = "\n".join(dict.fromkeys(map(str, answers))) if isinstance(answers, list) else answers
    return Query(
        _id(row, where),
        _text(row, "text", where),
        _clean(str(answer)),
        bool(metadata.get("is_impossible") or metadata.get("unanswerable")),
    )


def _id(row: dict[str, Any], where: str) -> str:
    found = row.get("_id")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise FolderUnreadable(f"{where}: “_id” is missing, or is not text.")
    return _clean(str(found))


def _text(row: dict[str, Any], name: str, where: str) -> str:
    found = row.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise FolderUnreadable(f"{where}: “{name}” is not text.")
    return _clean(found)


def _clean(text: str) -> str:
    """Without what neither a file nor the database can hold: NUL, halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _grade(parts: list[str], where: str) -> int:
    try:
        if len(parts) != 3:
            raise ValueError
        grade = float(parts[2])
        return max(0, min(int(grade), 32_767))
    except (ValueError, OverflowError) as exc:
        raise FolderUnreadable(
            f"{where}: not query-id, corpus-id and a number, with tabs between them."
        ) from exc


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise FolderUnreadable(f"{where}: not JSON.") from exc
        if not isinstance(found, dict):
            raise FolderUnreadable(f"{where}: JSON, but not an object.")
        yield where, found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers. Raises FolderUnreadable."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            number = 0
            while line := file.readline(LINE_MAX_CHARS):
                number += 1
                if len(line) == LINE_MAX_CHARS:
                    raise FolderUnreadable(f"{path}, line {number}: over 64 million characters.")
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as exc:
        raise FolderUnreadable(f"{path} cannot be read: {exc.strerror}.") from exc
    except UnicodeDecodeError as exc:
        raise FolderUnreadable(f"{path} is not UTF-8. Save it as UTF-8.") from exc
