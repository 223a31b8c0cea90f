"""Labelled collections in BEIR layout, and nDCG and recall over them."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Collection as AbstractCollection
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.documents.models import Chunk, Collection, Document
from apps.tenants.scope import tenant_scope
from tests.retrieval.corpus import make_document

ROOT: Path = settings.BASE_DIR.parent / "shared" / "data" / "retrieval"
MISSING = f"needs the labelled collections in {ROOT} (../shared/data)"


@dataclass(frozen=True)
class Question:
    """A question and the passages that answer it, by id; none where it cannot be answered."""

    text: str
    relevant: frozenset[str]
    id: str = ""

    @property
    def is_reported(self) -> bool:
        """Of two halves, the one that relevance was not fitted on (docs/decisions/0016)."""
        return hashlib.sha256(self.id.encode()).digest()[-1] % 2 == 1


@dataclass(frozen=True)
class Labelled:
    """Passages (id -> title, text) and questions about them."""

    passages: Mapping[str, tuple[str, str]]
    questions: Sequence[Question]

    @property
    def answerable(self) -> list[Question]:
        return [question for question in self.questions if question.relevant]

    def first(self, count: int) -> Labelled:
        """The first `count` passages, and the questions that they answer."""
        passages = dict(list(self.passages.items())[:count])
        kept = [question for question in self.answerable if question.relevant <= set(passages)]
        return Labelled(passages, kept)


def load(name: str) -> Labelled:
    """The collection in folder `name`."""
    folder = ROOT / name
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        question, passage, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(question, set()).add(passage)
    return Labelled(
        {row["_id"]: (row.get("title", ""), row["text"]) for row in _rows(folder / "corpus.jsonl")},
        [
            Question(row["text"], frozenset(relevant.get(row["_id"], ())), row["_id"])
            for row in _rows(folder / "queries.jsonl")
        ],
    )


def add_passages(
    collection: Collection, passages: Mapping[str, tuple[str, str]], *, language: str = ""
) -> tuple[Document, dict[uuid.UUID, str]]:
    """One document with a chunk a passage, to be indexed; and which chunk is which passage."""
    document = make_document(collection, [text for _, text in passages.values()], language=language)
    with tenant_scope(collection.tenant_id):
        chunks = list(Chunk.objects.filter(document=document).order_by("ordinal"))
        for chunk, (title, _) in zip(chunks, passages.values(), strict=True):
            chunk.heading_path = title[:500]
        Chunk.objects.bulk_update(chunks, ["heading_path"], batch_size=1000)
    ids = [chunk.id for chunk in chunks]
    return document, dict(zip(ids, passages, strict=True))


def ndcg(found: Sequence[str], relevant: AbstractCollection[str], depth: int = 10) -> float:
    """Normalised discounted cumulative gain with grades 0 and 1."""
    gain = sum(
        1 / math.log2(rank + 1)
        for rank, passage in enumerate(found[:depth], start=1)
        if passage in relevant
    )
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(depth, len(relevant)) + 1))
    return gain / ideal if ideal else 0.0


def recall(found: Sequence[str], relevant: AbstractCollection[str], depth: int) -> float:
    """Share of the relevant passages among the first `depth`."""
    return len(set(found[:depth]) & set(relevant)) / len(relevant) if relevant else 0.0


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
