"""A second, closer look at the best fused candidates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from apps.documents.models import Chunk
from apps.inference.types import Reranker, WeightedWord
from apps.retrieval import fusion
from apps.retrieval.analysis import Word, detect_language, words_of
from apps.retrieval.bm25 import Statistics
from apps.retrieval.texts import indexed_text
from apps.retrieval.types import Candidate

_STEP = 1e-6  # between the last that was reranked and the first that was not


@dataclass(frozen=True)
class Ranked:
    """A candidate with its text, and what ranks it."""

    candidate: Candidate
    chunk: Chunk
    reranker_score: float | None  # on the reranker's own scale; None where none looked
    score: float

    @cached_property
    def text(self) -> str:
        """As it is searched."""
        return indexed_text(self.chunk)

    @cached_property
    def words(self) -> list[Word]:
        """Of `text`, stemmed in the document's language."""
        return words_of(self.text, self.chunk.document.language or detect_language(self.text))


def rerank(
    question: str,
    candidates: Sequence[tuple[Candidate, Chunk]],
    *,
    reranker: Reranker,
    words: Sequence[WeightedWord],
    readable: Sequence[bool],
) -> list[Ranked]:
    """Order by z(vector) + z(BM25) + z(reranker), best first; whichever the reranker is.

    `readable` says of each candidate whether it is in a language that the reranker knows; the
    others count as its mean. Raises an InferenceError where the reranker does not answer;
    `keep_order` is then the way.
    """
    read = zip(candidates, readable, strict=True)
    texts = [indexed_text(chunk) for (_, chunk), known in read if known]
    given = iter(reranker.score(question, texts, words)) if texts else iter(())
    scores = [next(given) if known else None for known in readable]
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


def followed_by(head: Sequence[Ranked], rest: Sequence[Ranked]) -> list[Ranked]:
    """The reranked head, and after it, in their own order, those that were not reranked."""
    scores = below([item.score for item in head], [item.score for item in rest])
    return [*head, *(replace(item, score=s) for item, s in zip(rest, scores, strict=True))]


def below(scores: Iterable[float], rest: Sequence[float]) -> list[float]:
    """`rest`, best first, moved under the least of `scores`, as far apart as they were."""
    least = min(scores, default=None)
    if least is None or not rest:
        return list(rest)
    return [least - (rest[0] - score) - _STEP for score in rest]


def moved_in(before: Sequence[Ranked], after: Sequence[Ranked], limit: int) -> int:
    """How many of the first `limit` were not among them before."""
    stood = {item.chunk.id for item in before[:limit]}
    return sum(item.chunk.id not in stood for item in after[:limit])


def weighted_words(words: Sequence[Word], statistics: Statistics) -> list[WeightedWord]:
    """The question's words with their idf: matching a rare word says more."""
    return [WeightedWord(word.start, word.end, statistics.idf(word.term)) for word in words]
