"""What goes into retrieval and what comes out."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Candidate:
    """A chunk found by search, before its text is fetched."""

    chunk_id: uuid.UUID
    vector_score: float | None  # cosine, -1 to 1; None where no vector was searched
    bm25_score: float | None  # None where BM25 did not return it
    fused_score: float


@dataclass(frozen=True)
class StageScores:
    """What each stage of search gave a passage; None where the stage did not see it."""

    bm25: float | None
    vector: float | None  # cosine, -1 to 1
    fused: float
    reranker: float | None  # on the reranker's own scale


@dataclass(frozen=True)
class Passage:
    """A chunk with its text, as it is shown, quoted and cited."""

    chunk_id: uuid.UUID
    document_id: uuid.UUID
    document_name: str
    heading_path: str
    text: str
    page_first: int
    page_last: int
    char_start: int
    char_end: int
    score: float  # orders passages within one answer; no absolute meaning
    relevance: float  # 0 to 1, comparable between questions: is this about the question at all
    stages: StageScores | None = None


@dataclass(frozen=True)
class Notice:
    """Something that was degraded, in words for the reader."""

    code: str  # e.g. "embedder_down", "reranker_down"
    message: str


@dataclass(frozen=True)
class Retrieval:
    """The outcome of one question's search, best passage first."""

    passages: tuple[Passage, ...]
    notices: tuple[Notice, ...] = ()
    # Where it was asked to explain: chunks with scores, best first, of the stages "bm25",
    # "vectors", "fused", "reranked" (then the rest of the fused) and "final" (as given).
    orders: Mapping[str, Sequence[tuple[uuid.UUID, float]]] = field(default_factory=dict)
