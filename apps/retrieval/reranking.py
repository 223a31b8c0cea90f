"""A second, closer look at the best fused candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.documents.models import Chunk
from apps.inference.types import Reranker, WeightedWord
from apps.retrieval import fusion
from apps.retrieval.analysis import Word
from apps.retrieval.bm25 import Statistics
from apps.retrieval.texts import indexed_text
from apps.retrieval.types import Candidate


@dataclass(frozen=True)
class Ranked:
    """A candidate with its text, and what ranks it."""

    candidate: Candidate
    chunk: Chunk
    reranker_score: float | None  # on the reranker's own scale; None where none looked
    score: float


def rerank(
    question: str,
    candidates: Sequence[tuple[Candidate, Chunk]],
    *,
    reranker: Reranker,
    words: Sequence[WeightedWord],
) -> list[Ranked]:
    """Order by z(vector) + z(BM25) + z(reranker), best first.

    Raises an InferenceError where the reranker does not answer; `keep_order` is then the way.
    """
    scores = reranker.score(question, [indexed_text(chunk) for _, chunk in candidates], words)
    totals = fusion.combine([candidate for candidate, _ in candidates], scores)
    ranked = [
        Ranked(candidate, chunk, score, total)
        for (candidate, chunk), score, total in zip(candidates, scores, totals, strict=True)
    ]
    return sorted(ranked, key=lambda item: -item.score)


def keep_order(candidates: Sequence[tuple[Candidate, Chunk]]) -> list[Ranked]:
    """The fused order, where nothing reranks."""
    return [
        Ranked(candidate, chunk, None, candidate.fused_score) for candidate, chunk in candidates
    ]


def weighted_words(words: Sequence[Word], statistics: Statistics) -> list[WeightedWord]:
    """The question's words with their idf: matching a rare word says more."""
    return [WeightedWord(word.start, word.end, statistics.idf(word.term)) for word in words]
