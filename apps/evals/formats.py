"""Reading labelled questions out of uploads: BEIR, CSV and JSONL.

An upload is read line by line and held as questions, within limits on bytes, questions and
labels. A line that cannot be taken is a problem with its place, and the others go on.
"""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from apps.documents.errors import EncodingUnclear
from apps.documents.parsing.decode import find_encoding
from apps.evals import fields
from apps.evals.archives import is_archive, unpack_beir
from apps.evals.errors import QuestionRefused, UploadRefused, UploadTooLarge, UploadUnreadable

UPLOAD_MAX_BYTES = 64 * 1024 * 1024
# 50,000 labels of 20,000 questions were read, placed and written in 12 s by a busy machine; more
# than these would keep a person waiting too long.
QUESTIONS_MAX = 20_000
LABELS_MAX = 50_000
LINE_MAX_CHARS = 1_000_000
PROBLEMS_SHOWN = 50
_COPY_BYTES = 1024 * 1024
_SUFFIXES = {".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json"}


class Sent(Protocol):
    """A file of an upload, as Django has it."""

    @property
    def name(self) -> str | None: ...

    def chunks(self) -> Iterable[bytes]: ...


@dataclass(frozen=True)
class Judgement:
    """Where an answer is, as the file says it: a document, and at most one way of saying where."""

    where: str
    document: str
    grade: int = 1
    char_start: int | None = None
    char_end: int | None = None
    page: int | None = None
    passage: str = ""


@dataclass
class Question:
    """One question of a file."""

    where: str
    key: str
    text: str
    answer: str = ""
    slices: list[str] = field(default_factory=list)
    unanswerable: bool = False
    judgements: list[Judgement] = field(default_factory=list)


@dataclass(frozen=True)
class Problem:
    """Something of the file that was not taken, or not as it stands."""

    code: str
    where: str
    message: str


@dataclass
class Problems:
    """All of them counted, the first ones kept."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[Problem] = field(default_factory=list)

    def add(self, code: str, where: str, message: str) -> None:
        self.counts[code] += 1
        if len(self.first) < PROBLEMS_SHOWN:
            self.first.append(Problem(code, where, message))

    @property
    def total(self) -> int:
        return self.counts.total()


@dataclass
class Reading:
    """What an upload holds."""

    format: str  # "BEIR", "CSV" or "JSONL"
    questions: dict[str, Question] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    notes: list[str] = field(default_factory=list)
    labels: int = 0

    def add(self, question: Question) -> None:
        """One more question, or more judgements of one that is there. Raises UploadTooLarge."""
        known = self.questions.setdefault(question.key, question)
        if known.text != question.text:
            self.problems.add(
                "duplicate_id",
                question.where,
                f"The id “{_short(question.key)}” is that of another question already "
                f"({known.where}). Give each question its own.",
            )
            return
        if known is not question:
            known.judgements += question.judgements
            self._add_slices(known, question)
            known.answer = known.answer or question.answer
            known.unanswerable = known.unanswerable or question.unanswerable
        self.count_labels(len(question.judgements))
        if len(self.questions) > QUESTIONS_MAX:
            raise UploadTooLarge(
                f"There are more than {QUESTIONS_MAX:,} questions in this upload. Send a part of "
                "them: a few hundred measure a collection well."
            )

    def _add_slices(self, known: Question, question: Question) -> None:
        slices = list(dict.fromkeys([*known.slices, *question.slices]))
        if len(slices) > fields.SLICES_MAX:
            self.problems.add(
                "too_many_slices",
                question.where,
                f"The question is in {fields.SLICES_MAX} slices already: no more are added.",
            )
        known.slices = slices[: fields.SLICES_MAX]

    def count_labels(self, count: int) -> None:
        self.labels += count
        if self.labels > LABELS_MAX:
            raise UploadTooLarge(
                f"There are more than {LABELS_MAX:,} labels in this upload. Send a part of them."
            )


def read_upload(files: Iterable[Sent]) -> Reading:
    """The questions of an upload. Raises UploadTooLarge or UploadUnreadable.

    One file: a BEIR folder as a zip, a CSV, or JSONL. Two: BEIR's queries.jsonl and a .tsv.
    """
    with _on_disk(files) as paths:
        if len(paths) == 1 and is_archive(paths[0]):
            queries, qrels, note = unpack_beir(paths[0], most=UPLOAD_MAX_BYTES)
            reading = _read_beir(queries, qrels)
            reading.notes.append(note)
            return reading
        return _read_plain(paths)


def _read_plain(paths: list[Path]) -> Reading:
    kinds = [path.suffix.casefold() for path in paths]
    if len(paths) == 2 and sorted(kinds) == [".jsonl", ".tsv"]:
        first, second = paths if kinds[0] == ".jsonl" else reversed(paths)
        return _read_beir(first, second)
    if len(paths) != 1 or kinds[0] not in _SUFFIXES:
        raise UploadUnreadable(
            "Choose one file (a zip of a BEIR folder, .csv or .jsonl), or BEIR's queries.jsonl "
            "together with its qrels as .tsv."
        )
    is_json = kinds[0] in {".jsonl", ".ndjson", ".json"}
    return _read_jsonl(paths[0]) if is_json else _read_csv(paths[0])


@contextmanager
def _on_disk(files: Iterable[Sent]) -> Iterator[list[Path]]:
    """The files under their own suffixes, all of them together within the limit of bytes."""
    with tempfile.TemporaryDirectory(prefix="labels-") as folder:
        paths, room = [], UPLOAD_MAX_BYTES
        for number, file in enumerate(files):
            suffix = Path(file.name or "").suffix[:10]
            path = Path(folder, f"{number}{suffix if suffix.isascii() else ''}")
            with path.open("wb") as target:
                room = _copy(file, target, room)
            paths.append(path)
        yield paths


def _copy(file: Sent, target: IO[bytes], room: int) -> int:
    for data in file.chunks():
        room -= len(data)
        if room < 0:
            raise UploadTooLarge(
                f"The upload is larger than {UPLOAD_MAX_BYTES // 2**20} MiB. Only questions and "
                "labels are needed: leave corpus.jsonl out."
            )
        target.write(data)
    return room


@contextmanager
def _text(path: Path) -> Iterator[IO[str]]:
    """Raises UploadUnreadable where its encoding cannot be told."""
    try:
        encoding = find_encoding(path)
    except EncodingUnclear as exc:
        raise UploadUnreadable(
            "How the characters of this file are encoded cannot be told. Save it as UTF-8."
        ) from exc
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        yield file


def _lines(file: IO[str], problems: Problems) -> Iterator[tuple[str, str]]:
    """Lines with their places; blank ones are skipped, endless ones are problems."""
    number = 0
    while line := file.readline(LINE_MAX_CHARS):
        number += 1
        where = f"line {number:,}"
        if len(line) == LINE_MAX_CHARS and not line.endswith("\n"):
            problems.add("line_too_long", where, f"Over {LINE_MAX_CHARS:,} characters: skipped.")
            while line and not line.endswith("\n"):
                line = file.readline(_COPY_BYTES)
            continue
        if line.strip("\ufeff \t\r\n"):
            yield where, line.strip("\ufeff\r\n")


def _objects(file: IO[str], problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, line in _lines(file, problems):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            problems.add("bad_json", where, "Not a JSON object on a line of its own.")
            continue
        if isinstance(found, dict):
            yield where, found
        else:
            problems.add("bad_json", where, "JSON, but not an object.")


def _taking(reading: Reading, where: str, make: Callable[[], Question | None]) -> None:
    """Add what `make` gives; what it refuses is a problem of that place."""
    try:
        question = make()
    except QuestionRefused as exc:
        reading.problems.add("bad_row", where, str(exc))
    else:
        if question is not None:
            reading.add(question)


# BEIR


def _read_beir(queries: Path, qrels: Path) -> Reading:
    reading = Reading("BEIR")
    judged = _read_qrels(qrels, reading)
    passed_over = 0

    def make(where: str, row: dict[str, Any]) -> Question | None:
        nonlocal passed_over
        question = _beir_question(where, row)
        question.judgements = judged.get(question.key, [])
        if question.key in reading.questions:
            raise QuestionRefused(f"The id “{_short(question.key)}” is there twice.")
        if not question.judgements and not question.unanswerable:
            passed_over += 1  # of another split
            return None
        return question

    labels, reading.labels = reading.labels, 0
    with _text(queries) as file:
        for where, row in _objects(file, reading.problems):
            _taking(reading, f"queries, {where}", lambda where=where, row=row: make(where, row))  # type: ignore[misc]
    reading.labels = max(labels, reading.labels)
    _report_strays(reading, judged)
    if passed_over:
        reading.notes.append(
            f"{passed_over:,} questions without a label in the qrels were passed over."
        )
    return _not_empty(reading)


def _beir_question(where: str, row: Mapping[str, Any]) -> Question:
    metadata = row.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    answers = metadata.get("answers", metadata.get("answer", ""))
    answer = answers
    if isinstance(answers, list):
        # Any of them is right: one a line, as gates of routes read them.
        are_texts = all(isinstance(each, str) for each in answers)
        answer = "\n".join(dict.fromkeys(answers)) if are_texts else answers[0]
    key = fields.bounded(row.get("_id"), "“_id”", fields.KEY_MAX_CHARS)
    if not key:
        raise QuestionRefused("“_id” is empty.")
    return Question(
        where=f"queries, {where}",
        key=key,
        text=fields.question_text(row.get("text")),
        answer=fields.bounded(answer or "", "The answer", fields.ANSWER_MAX_CHARS),
        unanswerable=bool(metadata.get("is_impossible") or metadata.get("unanswerable")),
    )


def _read_qrels(path: Path, reading: Reading) -> dict[str, list[Judgement]]:
    judged: dict[str, list[Judgement]] = {}
    with _text(path) as file:
        for where, line in _lines(file, reading.problems):
            parts = line.split("\t") if "\t" in line else line.split()
            if len(parts) == 4:
                parts.pop(1)  # TREC's iteration
            if where == "line 1" and parts[-1].strip().casefold() in {"score", "relevance"}:
                continue
            try:
                key, judgement = _qrel(f"qrels, {where}", parts)
            except QuestionRefused as exc:
                reading.problems.add("bad_row", f"qrels, {where}", str(exc))
                continue
            judged.setdefault(key, []).append(judgement)
            reading.count_labels(1)
    return judged


def _qrel(where: str, parts: list[str]) -> tuple[str, Judgement]:
    if len(parts) != 3:
        raise QuestionRefused("Not query-id, corpus-id and score, with tabs between them.")
    key, document, score = (fields.clean(part) for part in parts)
    return key, Judgement(where, document[:500], _grade(score))


def _report_strays(reading: Reading, judged: Mapping[str, list[Judgement]]) -> None:
    for key, judgements in judged.items():
        if key not in reading.questions:
            reading.problems.add(
                "unknown_question",
                judgements[0].where,
                f"No question has the id “{_short(key)}” ({len(judgements)} labels).",
            )


# CSV

_COLUMNS = {
    "id": "id", "key": "id", "query_id": "id", "question_id": "id",
    "question": "question", "query": "question",
    "document": "document", "document_path": "document", "path": "document", "file": "document",
    "passage": "passage", "passage_text": "passage",
    "char_start": "char_start", "char_end": "char_end",
    "page": "page", "grade": "grade", "score": "grade", "relevance": "grade",
    "answer": "answer", "reference_answer": "answer",
    "slices": "slices", "slice": "slices", "tags": "slices", "unanswerable": "unanswerable",
}  # fmt: skip


def _read_csv(path: Path) -> Reading:
    reading = Reading("CSV")
    with _text(path) as file:
        # A row's text is cut at csv's own limit of 131,072 characters a field.
        head = file.readline(LINE_MAX_CHARS)
        delimiter = max(",;\t", key=head.count)
        names = _header(head, delimiter, reading)
        rows = csv.reader(file, delimiter=delimiter)
        while (row := _next_row(rows, reading)) is not None:
            if any(cell.strip() for cell in row):
                where = f"line {rows.line_num + 1:,}"
                values = dict(zip(names, row, strict=False))
                values.pop("", None)
                _taking(reading, where, lambda where=where, values=values: _row(where, values))  # type: ignore[misc]
    return _not_empty(reading)


def _next_row(rows: Any, reading: Reading) -> list[str] | None:
    while True:
        try:
            return next(rows, None)
        except csv.Error as exc:
            reading.problems.add(
                "bad_csv", f"line {rows.line_num + 1:,}", f"Not CSV: {exc}. Is a quote not closed?"
            )


def _header(head: str, delimiter: str, reading: Reading) -> list[str]:
    cells = next(csv.reader([head.lstrip("\ufeff")], delimiter=delimiter), [])
    plain = [re.sub(r"[\s-]+", "_", cell.strip().casefold()) for cell in cells]
    names = [_COLUMNS.get(name, "") for name in plain]
    if "question" not in names:
        raise UploadUnreadable(
            "The first line has to name the columns, and one of them has to be “question”. "
            "The others: document, passage, char_start, char_end, page, grade, answer, slices, "
            "unanswerable, id."
        )
    unused = [cell for cell, name in zip(cells, names, strict=True) if cell.strip() and not name]
    if unused:
        reading.notes.append(f"Columns that were not used: {_short(', '.join(unused), 200)}.")
    return names


def _row(where: str, values: Mapping[str, str]) -> Question:
    given = {name: value for name, value in values.items() if value.strip()}
    text = fields.question_text(given.get("question", ""))
    judgements = [_judgement(where, given)] if "document" in given else []
    if not judgements and {"passage", "char_start", "page"} & given.keys():
        raise QuestionRefused("It says where in a document, and no document.")
    return Question(
        where=where,
        key=_key(given.get("id", ""), text),
        text=text,
        answer=fields.bounded(given.get("answer", ""), "The answer", fields.ANSWER_MAX_CHARS),
        slices=fields.split_slices(given.get("slices", "")),
        unanswerable=fields.flag(given.get("unanswerable", "")),
        judgements=judgements,
    )


# JSONL


def _read_jsonl(path: Path) -> Reading:
    reading = Reading("JSONL")
    with _text(path) as file:
        for where, row in _objects(file, reading.problems):
            _taking(reading, where, lambda where=where, row=row: _object(where, row, reading))  # type: ignore[misc]
    return _not_empty(reading)


def _object(where: str, row: Mapping[str, Any], reading: Reading) -> Question:
    if "question" not in row and "_id" in row:
        raise QuestionRefused("A line of BEIR's queries: send its qrels (.tsv) together with it.")
    text = fields.question_text(row.get("question", ""))
    labels, slices = ([] if row.get(name) is None else row[name] for name in ("labels", "slices"))
    if not isinstance(labels, list) or not isinstance(slices, list):
        raise QuestionRefused("“labels” or “slices” is not a list.")
    key = _key(row.get("id") or "", text)
    if key in reading.questions:
        raise QuestionRefused(f"The id “{_short(key)}” is there twice.")
    return Question(
        where=where,
        key=key,
        text=text,
        answer=fields.bounded(row.get("answer") or "", "The answer", fields.ANSWER_MAX_CHARS),
        slices=fields.slices_of(slices),
        unanswerable=fields.flag(row.get("unanswerable")),
        judgements=[_judgement(where, _label(label)) for label in labels],
    )


def _label(label: object) -> dict[str, Any]:
    if not isinstance(label, dict):
        raise QuestionRefused("A label is not an object.")
    return {name: value for name, value in label.items() if value is not None}


# What CSV and JSONL share


def _judgement(where: str, given: Mapping[str, Any]) -> Judgement:
    document = fields.bounded(given.get("document", ""), "The document's path", 500)
    if not document:
        raise QuestionRefused("A label names no document.")
    start, end = (given.get(name) for name in ("char_start", "char_end"))
    if (start is None) != (end is None):
        raise QuestionRefused("char_start and char_end belong together.")
    page = given.get("page")
    judgement = Judgement(
        where,
        document,
        _grade(given.get("grade", 1)),
        None if start is None else _offset(start, "char_start", 0),
        None if end is None else _offset(end, "char_end", 1),
        None if page is None else _offset(page, "page", 1),
        fields.bounded(given.get("passage", ""), "The passage", fields.PASSAGE_MAX_CHARS),
    )
    if start is not None and judgement.char_end <= judgement.char_start:  # type: ignore[operator]
        raise QuestionRefused("char_end is not after char_start.")
    return judgement


def _offset(value: object, name: str, least: int) -> int:
    return fields.whole(value, name, least=least, most=fields.OFFSET_MAX)


def _grade(value: object) -> int:
    return fields.whole(value, "The grade", least=0, most=fields.GRADE_MAX)


def _key(value: object, text: str) -> str:
    return fields.bounded(value, "The id", fields.KEY_MAX_CHARS) or fields.key_of(text)


def _not_empty(reading: Reading) -> Reading:
    if not reading.questions and not reading.problems.total:
        raise UploadRefused("There is no question in this upload.")
    return reading


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
