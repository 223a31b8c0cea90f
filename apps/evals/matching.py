"""From ranked chunks and labelled places to a ranking of units, which is what metrics count.

A label is a document or a range of one, a chunk is a span, and how documents are cut may change.
A chunk hits a label when it is of the document and, for a range, when the two share at least half
of the shorter. A label counts once, where it is first hit; another chunk on it takes no rank.

What hits no label takes a rank of its own. Where labels name whole documents, that is one a
document: the ranking is of documents, as in BEIR, and figures can be compared with published ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Labelled:
    """A label: a document (no range) or characters `start` to `end` of it, with its grade."""

    id: int
    document_id: uuid.UUID
    start: int | None
    end: int | None
    grade: int  # 0: looked at, and not relevant

    @property
    def unit(self) -> str:
        return f"label:{self.id}"


@dataclass(frozen=True)
class Found:
    """A chunk that a stage of search found, and where it lies."""

    chunk_id: uuid.UUID
    document_id: uuid.UUID
    start: int
    end: int
    score: float


def hits(label: Labelled, chunk: Found) -> bool:
    """Whether the chunk is (a good part of) what the label points at."""
    if label.document_id != chunk.document_id:
        return False
    if label.start is None or label.end is None:
        return True
    shared = min(label.end, chunk.end) - max(label.start, chunk.start)
    shorter = min(label.end - label.start, chunk.end - chunk.start)
    return shared > 0 and 2 * shared >= shorter


def grade_of(chunk: Found, labels: Sequence[Labelled]) -> int:
    """The highest grade of the labels that the chunk hits; 0 where it hits none."""
    return max((label.grade for label in labels if hits(label, chunk)), default=0)


def units_of(ranked: Sequence[Found], labels: Sequence[Labelled]) -> list[str]:
    """Names of units, best first, each once. A chunk on two labels stands for both, in turn."""
    by_document = all(label.start is None for label in labels)
    best_first = sorted(labels, key=lambda label: (-label.grade, label.id))
    return list(
        dict.fromkeys(unit for chunk in ranked for unit in _units(chunk, best_first, by_document))
    )


def _units(chunk: Found, labels: Sequence[Labelled], by_document: bool) -> Iterator[str]:
    hit = [label.unit for label in labels if hits(label, chunk)]
    if hit:
        yield from hit
    elif by_document:
        yield f"document:{chunk.document_id}"
    else:
        yield f"chunk:{chunk.chunk_id}"
