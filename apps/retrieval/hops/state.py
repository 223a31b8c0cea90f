"""One question's search, as far as it has come."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from apps.inference.errors import InferenceError
from apps.inference.types import Vectors
from apps.retrieval import bm25
from apps.retrieval.analysis import Word
from apps.retrieval.filters import Narrowed
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.options import SearchFilter, SearchOptions
from apps.retrieval.plans import SearchPlan
from apps.retrieval.types import Notice
from apps.telemetry.hops import Hop

logger = logging.getLogger(__name__)


@dataclass
class Search:
    """What the hops pass on to each other."""

    tenant_id: uuid.UUID
    question: str
    collection_ids: Sequence[uuid.UUID]
    limit: int
    language: str
    options: SearchOptions
    narrowed: SearchFilter
    index: EmbeddingIndex | None  # all hops search this one, whatever becomes active meanwhile
    measured: bool = False  # every hop does its work: nothing comes out of a cache
    words: list[Word] = field(default_factory=list)
    vector: Vectors | None = None  # None: search by words only
    documents: Narrowed = field(default_factory=Narrowed)  # `narrowed`, resolved
    plan: SearchPlan | None = None  # how the vectors were searched
    nearest: Sequence[uuid.UUID] = ()  # what that found, nearest first
    nearest_ms: float = 0.0
    statistics: bm25.Statistics = field(default_factory=lambda: bm25.Statistics(0, {}))
    notices: list[Notice] = field(default_factory=list)
    late_interaction: bool = False  # whether the reranker's scores are those
    # Where `options.explain`: what each stage found, best first.
    orders: dict[str, list[tuple[uuid.UUID, float]]] = field(default_factory=dict)

    @property
    def generation(self) -> int:
        """Of the chunks that are searched."""
        return self.index.generation if self.index else 0

    @property
    def texts_wanted(self) -> int:
        """Candidates whose text is read: some to spare, to stand in for copies."""
        spare = self.limit // 4 if self.options.diversify else 0
        return max(self.limit + spare, self.options.rerank_candidates)

    def note_order(self, stage: str, scores: Mapping[uuid.UUID, float]) -> None:
        """Remember a stage's chunks with their scores, best first; of equal ones as they came."""
        if self.options.explain:
            self.orders[stage] = sorted(scores.items(), key=lambda item: -item[1])


def skip(hop: Hop, reason: str) -> None:
    """The hop was not needed, or not possible: say why."""
    hop.end_as("skipped")
    hop.set(reason=reason)


def degrade(search: Search, hop: Hop, exc: InferenceError, notice: Notice) -> None:
    """A part is down: the search goes on without it, and the reader is told."""
    logger.warning("hop %s degraded: %s", hop.name, exc.code)
    hop.end_as("degraded", exc.code)
    search.notices.append(notice)
