"""Hop rerank: a closer look at the best candidates, and which of them are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from django.utils.translation import gettext_noop

from apps.documents.models import Chunk
from apps.documents.tokens import estimate_tokens
from apps.inference.errors import InferenceError
from apps.inference.types import Reranker
from apps.retrieval import embedders, reranking
from apps.retrieval.hops.state import Search, degrade, skip
from apps.retrieval.relevance import Evidence, relevance
from apps.retrieval.reranking import Ranked
from apps.retrieval.selection import Selectable, select
from apps.retrieval.signals import closeness, coverage, name_share, number_share
from apps.retrieval.types import Candidate, Notice, Passage, StageScores
from apps.retrieval.uses import counted
from apps.telemetry.hops import Hop

LATE_INTERACTION = "late-interaction"
RERANKER_DOWN = Notice(
    "reranker_down",
    gettext_noop(
        "The passages could not be ranked a second time: their order is less exact than usual."
    ),
)


def rerank(search: Search, candidates: list[tuple[Candidate, Chunk]], hop: Hop) -> list[Ranked]:
    """The candidates best first: as many as are to be, reranked, and the others after them."""
    depth = search.options.rerank_candidates
    hop.set(candidates=min(depth, len(candidates)))
    ranked = kept = reranking.keep_order(candidates)
    head = _rerank_head(search, candidates[:depth], hop)
    if head is not None:
        ranked = reranking.followed_by(head, kept[depth:])
        hop.set(moved_in=reranking.moved_in(kept, ranked, search.limit))
    search.note_order("reranked", _with_rest(search, _scores(ranked)))
    return ranked


def choose(search: Search, ranked: Sequence[Ranked], hop: Hop) -> list[Ranked]:
    """Those that are given: no near-duplicates, several documents before one."""
    if not search.options.diversify:
        search.note_order("final", _with_rest(search, _scores(ranked)))
        return list(ranked[: search.limit])
    asked = {word.term for word in search.words}
    found = [_selectable(item, asked) for item in ranked]
    chosen = select(found, limit=search.limit)
    hop.set(near_duplicates=chosen.duplicates, moved_for_diversity=chosen.moved)
    if search.options.explain:
        everything = select(found, limit=len(found))
        dropped = {item.chunk_id for item in found} - set(everything.scores)
        search.note_order("final", _with_rest(search, everything.scores, without=dropped))
    by_id = {item.chunk.id: item for item in ranked}
    return [replace(by_id[chunk], score=score) for chunk, score in chosen.scores.items()]


def _rerank_head(
    search: Search, head: Sequence[tuple[Candidate, Chunk]], hop: Hop
) -> list[Ranked] | None:
    """The reranked head; None, and the hop says why, where nothing reranks."""
    if not head or not search.options.rerank:
        skip(hop, "switched off" if head else "no candidates")
        return None
    reranker = _reranker(search, hop)
    if reranker is None:
        return None
    knows = embedders.reranker_knows
    readable = [knows(search.index, reranker, chunk.document.language) for _, chunk in head]
    hop.set(reranker=reranker.name, unreadable=readable.count(False))
    words = reranking.weighted_words(search.words, search.statistics)
    tokens = _tokens(search.question, head, readable, reranker)
    try:
        with counted(hop, "rerank", reranker.name, tokens):
            ranked = reranking.rerank(
                search.question, head, reranker=reranker, words=words, readable=readable
            )
    except InferenceError as exc:
        degrade(search, hop, exc, RERANKER_DOWN)
        return None
    search.late_interaction = reranker.name == LATE_INTERACTION
    return ranked


def _tokens(
    question: str,
    head: Sequence[tuple[Candidate, Chunk]],
    readable: Sequence[bool],
    reranker: Reranker,
) -> int:
    """What the reranker reads: the passages, and the question once, or again with each."""
    read = [chunk.token_count for (_, chunk), known in zip(head, readable, strict=True) if known]
    asked = 1 if reranker.name == LATE_INTERACTION else len(read)
    return sum(read) + asked * estimate_tokens(question) if read else 0


def _reranker(search: Search, hop: Hop) -> Reranker | None:
    try:
        reranker = embedders.reranker_of(search.index)
    except InferenceError as exc:
        degrade(search, hop, exc, RERANKER_DOWN)
        return None
    reason = _unfit(search, reranker)
    if reason:
        skip(hop, reason)
        return None
    return reranker


def _unfit(search: Search, reranker: Reranker | None) -> str:
    """Why the reranker has no say in this question; "" where it has."""
    if reranker is None:
        return "off"
    if reranker.name == LATE_INTERACTION and search.options.vectors and search.vector is None:
        # The same model: it does not know the language either, or is down as well.
        return "embedding model not used"
    if not embedders.reranker_knows(search.index, reranker, search.language):
        return "language unknown to the reranker"
    return ""


def _scores(ranked: Sequence[Ranked]) -> dict[UUID, float]:
    return {item.chunk.id: item.score for item in ranked}


def _with_rest(
    search: Search, scores: Mapping[UUID, float], without: AbstractSet[UUID] = frozenset()
) -> dict[UUID, float]:
    """`scores`, and below them those of the fused candidates whose text was not read."""
    placed = {*scores, *without}
    fused = search.orders.get("fused", [])
    rest = [(chunk, score) for chunk, score in fused if chunk not in placed]
    below = reranking.below(scores.values(), [score for _, score in rest])
    return {**scores, **{chunk: score for (chunk, _), score in zip(rest, below, strict=True)}}


def _selectable(item: Ranked, asked: AbstractSet[int]) -> Selectable:
    text = item.text
    telling = frozenset(
        word.term
        for word in item.words
        if word.term in asked or any(map(str.isdigit, text[word.start : word.end]))
    )
    terms = [word.term for word in item.words]
    return Selectable(item.chunk.id, item.chunk.document_id, item.score, terms, telling)


def passage_of(search: Search, item: Ranked) -> Passage:
    chunk = item.chunk
    evidence = _evidence(search, item)
    return Passage(
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        document_name=chunk.document.name,
        heading_path=chunk.heading_path,
        text=chunk.text,
        page_first=chunk.page_first,
        page_last=chunk.page_last,
        char_start=chunk.char_start,
        char_end=chunk.char_end,
        score=item.score,
        relevance=relevance(evidence),
        stages=StageScores(
            bm25=item.candidate.bm25_score,
            vector=item.candidate.vector_score,
            fused=item.candidate.fused_score,
            reranker=item.reranker_score,
        ),
    )


def _evidence(search: Search, item: Ranked) -> Evidence:
    words, statistics = search.words, search.statistics
    # A year may stand in the document's name only.
    named = f"{item.chunk.document.name}\n{item.text}"
    return Evidence(
        coverage=coverage(words, {word.term for word in item.words}, statistics),
        cosine=item.candidate.vector_score,
        late_interaction=item.reranker_score if search.late_interaction else None,
        language=search.language,
        closeness=closeness(words, item.text, item.words, statistics),
        numbers=number_share(search.question, named),
        names=name_share(search.question, named, search.language),
    )
