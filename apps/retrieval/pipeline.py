"""Hops embed, search and rerank: from a question to the passages that may answer it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.conf import settings

from apps.documents.models import Chunk
from apps.inference import registry
from apps.inference.errors import InferenceError
from apps.inference.types import Vectors
from apps.retrieval import bm25, fusion, reranking, selectors, vectors
from apps.retrieval.analysis import Word, detect_language, words_of
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.normalization import normalize
from apps.retrieval.relevance import Evidence, coverage, relevance
from apps.retrieval.texts import indexed_text
from apps.retrieval.types import Candidate, Notice, Passage, Retrieval, StageScores
from apps.telemetry.hops import Hop, Trace
from apps.tenants.scope import tenant_scope

logger = logging.getLogger(__name__)

LEG_CANDIDATES = 100  # of each leg; recall@50 of the fused ones was measured at .86 to 1.0

EMBEDDER_DOWN = Notice(
    "embedder_down",
    "Search by meaning is not available at the moment: these passages were found by their words.",
)
INDEX_BEHIND = Notice(
    "index_behind",
    "The documents were indexed with another embedding model than the one in use: these passages "
    "were found by their words.",
)
RERANKER_DOWN = Notice(
    "reranker_down",
    "The passages could not be ranked a second time: their order is less exact than usual.",
)


@dataclass
class _Search:
    """One question's search, as far as it has come."""

    tenant_id: uuid.UUID
    question: str
    collection_ids: Sequence[uuid.UUID]
    limit: int
    language: str
    document_ids: Sequence[uuid.UUID] | None = None  # None: all of the collections
    words: list[Word] = field(default_factory=list)
    index: EmbeddingIndex | None = None
    vector: Vectors | None = None  # None: search by words only
    statistics: bm25.Statistics = field(default_factory=lambda: bm25.Statistics(0, {}))
    notices: list[Notice] = field(default_factory=list)
    late_interaction: bool = False  # whether the reranker's scores are those


def retrieve(
    *,
    tenant_id: uuid.UUID,
    question: str,
    collection_ids: Sequence[uuid.UUID],
    trace: Trace,
    limit: int = 8,
    document_ids: Sequence[uuid.UUID] | None = None,
) -> Retrieval:
    """The passages of the collections that suit `question`, best first, at most `limit`.

    Only ready documents of the tenant are searched, whatever ids are given; with `document_ids`,
    only those of them, weighed as parts of their collections. A broken embedder or
    reranker degrades the result and adds a notice; it never raises for them. Records hops
    "embed", "search" and "rerank" in `trace`.
    """
    limit_chars = settings.QUESTION_MAX_CHARS
    text = normalize(question[:limit_chars])[:limit_chars]  # some characters become several
    search = _Search(
        tenant_id, text, list(collection_ids), limit, detect_language(text), document_ids
    )
    with trace.hop("embed") as hop:
        _embed(search, hop)
    with trace.hop("search") as hop:
        candidates = _find(search, hop)
    with trace.hop("rerank") as hop:
        ranked = _rerank(search, candidates, hop)
    passages = tuple(_passage(search, item) for item in ranked[:limit])
    return Retrieval(passages, tuple(search.notices))


def knows_language(language: str) -> bool:
    """Whether the embedding model was declared to know it; what cannot be told passes."""
    known = settings.EMBEDDING_LANGUAGES
    return not language or "*" in known or language in known


def _question_words(search: _Search) -> list[Word]:
    """Stemmed as English, as the question's own language, and as the documents'.

    A question is too short to be sure of its language, and stems match only their like.
    """
    languages = selectors.document_languages(search.tenant_id, search.collection_ids)
    stemmed = [words_of(search.question, each) for each in ("en", search.language, *languages)]
    return list(dict.fromkeys(word for words in stemmed for word in words))


def _embed(search: _Search, hop: Hop) -> None:
    search.index = index = selectors.active_index(search.tenant_id)
    hop.set(language=search.language)
    if index is None or not search.question.strip():
        return _skip(hop, "nothing to search")
    if not knows_language(search.language):
        return _skip(hop, "language unknown to the model")
    try:
        embedder = registry.get_embedder()
        if (embedder.model_id, embedder.dimensions) != (index.model_id, index.dimensions):
            hop.end_as("degraded", "index_behind")
            search.notices.append(INDEX_BEHIND)
            return None
        search.vector = embedder.embed_query(search.question)
    except InferenceError as exc:
        _degrade(search, hop, exc, EMBEDDER_DOWN)
    return None


def _find(search: _Search, hop: Hop) -> list[tuple[Candidate, Chunk]]:
    """The best fused candidates with their text: one short scope."""
    with tenant_scope(search.tenant_id):
        by_word = _search_words(search)
        by_vector = _search_vectors(search, by_word)
        languages = selectors.searchable_chunks(
            search.tenant_id, {*by_word, *by_vector}, search.collection_ids
        )
        fused = fusion.fuse(
            {
                chunk: score
                for chunk, score in by_vector.items()
                if chunk in languages and knows_language(languages[chunk])
            },
            {chunk: score for chunk, score in by_word.items() if chunk in languages},
        )
        best = fused[: max(search.limit, settings.RERANK_CANDIDATES)]
        chunks = selectors.read_chunks(search.tenant_id, [each.chunk_id for each in best])
    hop.set(
        vector_candidates=len(by_vector),
        bm25_candidates=len(by_word),
        fused_candidates=len(fused),
        plan=vectors.plan(search.index).kind if search.index and by_vector else "none",
        chunks_searched=search.statistics.chunk_count,
    )
    if search.vector is None and search.notices:
        hop.end_as("degraded", search.notices[-1].code)
    return [(each, chunks[each.chunk_id]) for each in best]


def _search_words(search: _Search) -> dict[uuid.UUID, float]:
    search.words = _question_words(search)
    terms = [word.term for word in search.words]
    search.statistics = bm25.read_statistics(
        tenant_id=search.tenant_id, collection_ids=search.collection_ids, terms=terms
    )
    return bm25.search(
        tenant_id=search.tenant_id,
        collection_ids=search.collection_ids,
        terms=terms,
        statistics=search.statistics,
        limit=LEG_CANDIDATES,
        document_ids=search.document_ids,
    )


def _search_vectors(search: _Search, by_word: dict[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """The nearest chunks, and the real score of those that only BM25 found."""
    if search.index is None or search.vector is None:
        return {}
    found = vectors.search(
        index=search.index,
        collection_ids=search.collection_ids,
        question=search.vector,
        limit=LEG_CANDIDATES,
        document_ids=search.document_ids,
    )
    rest = [chunk for chunk in by_word if chunk not in found]
    return found | vectors.score(index=search.index, chunk_ids=rest, question=search.vector)


def _rerank(
    search: _Search, candidates: list[tuple[Candidate, Chunk]], hop: Hop
) -> list[reranking.Ranked]:
    hop.set(candidates=len(candidates))
    kept = reranking.keep_order(candidates)
    if not candidates:
        _skip(hop, "no candidates")
        return kept
    try:
        reranker = registry.get_reranker()
        if reranker is None:
            _skip(hop, "off")
            return kept
        if reranker.name == "late-interaction" and search.vector is None:
            # The same model: it does not know the language either, or is down as well.
            _skip(hop, "embedding model not used")
            return kept
        words = reranking.weighted_words(search.words, search.statistics)
        hop.set(reranker=reranker.name)
        ranked = reranking.rerank(search.question, candidates, reranker=reranker, words=words)
    except InferenceError as exc:
        _degrade(search, hop, exc, RERANKER_DOWN)
        return kept
    search.late_interaction = reranker.name == "late-interaction"
    return ranked


def _passage(search: _Search, item: reranking.Ranked) -> Passage:
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


def _skip(hop: Hop, reason: str) -> None:
    hop.end_as("skipped")
    hop.set(reason=reason)


def _degrade(search: _Search, hop: Hop, exc: InferenceError, notice: Notice) -> None:
    logger.warning("hop %s degraded: %s", hop.name, exc.code)
    hop.end_as("degraded", exc.code)
    search.notices.append(notice)
