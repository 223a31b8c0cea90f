"""Hop rerank: a closer look at the best candidates, and what is known of each in the end."""

from __future__ import annotations

from apps.documents.models import Chunk
from apps.inference.errors import InferenceError
from apps.retrieval import embedders, reranking
from apps.retrieval.hops.state import Search, degrade, skip
from apps.retrieval.relevance import Evidence, coverage, relevance
from apps.retrieval.texts import indexed_text
from apps.retrieval.types import Candidate, Notice, Passage, StageScores
from apps.telemetry.hops import Hop

RERANKER_DOWN = Notice(
    "reranker_down",
    "The passages could not be ranked a second time: their order is less exact than usual.",
)


def rerank(
    search: Search, candidates: list[tuple[Candidate, Chunk]], hop: Hop
) -> list[reranking.Ranked]:
    hop.set(candidates=len(candidates))
    kept = reranking.keep_order(candidates)
    if not candidates:
        skip(hop, "no candidates")
        return kept
    if not search.options.rerank:
        skip(hop, "switched off")
        return kept
    try:
        reranker = embedders.reranker_of(search.index)
        if reranker is None:
            skip(hop, "off")
            return kept
        if reranker.name == "late-interaction" and search.vector is None:
            # The same model: it does not know the language either, or is down as well.
            skip(hop, "embedding model not used")
            return kept
        words = reranking.weighted_words(search.words, search.statistics)
        hop.set(reranker=reranker.name)
        ranked = reranking.rerank(search.question, candidates, reranker=reranker, words=words)
    except InferenceError as exc:
        degrade(search, hop, exc, RERANKER_DOWN)
        return kept
    search.late_interaction = reranker.name == "late-interaction"
    return ranked


def passage_of(search: Search, item: reranking.Ranked) -> Passage:
    chunk = item.chunk
    evidence = Evidence(
        coverage=coverage(
            search.words, indexed_text(chunk), chunk.document.language, search.statistics
        ),
        cosine=item.candidate.vector_score,
        late_interaction=item.reranker_score if search.late_interaction else None,
        language=search.language,
    )
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
