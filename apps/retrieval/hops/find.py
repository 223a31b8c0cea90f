"""Hop search: both legs, fused, with their text."""

from __future__ import annotations

import uuid

from apps.documents.models import Chunk
from apps.retrieval import bm25, embedders, fusion, selectors, vectors
from apps.retrieval.analysis import Word, words_of
from apps.retrieval.hops.state import Search
from apps.retrieval.types import Candidate
from apps.telemetry.hops import Hop
from apps.tenants.scope import tenant_scope


def find(search: Search, hop: Hop) -> list[tuple[Candidate, Chunk]]:
    """The best fused candidates with their text: one short scope."""
    with tenant_scope(search.tenant_id):
        by_word = _search_words(search)
        by_vector = _search_vectors(search, by_word)
        languages = selectors.searchable_chunks(
            search.tenant_id, {*by_word, *by_vector}, search.collection_ids
        )
        by_vector = {
            chunk: score
            for chunk, score in by_vector.items()
            if chunk in languages
            and search.index is not None
            and embedders.knows_language(search.index, languages[chunk])
        }
        by_word = {chunk: score for chunk, score in by_word.items() if chunk in languages}
        fused = fusion.fuse(by_vector, by_word)
        best = fused[: max(search.limit, search.options.rerank_candidates)]
        chunks = selectors.read_chunks(search.tenant_id, [each.chunk_id for each in best])
    search.note_order("bm25", by_word)
    search.note_order("vectors", by_vector)
    search.note_order("fused", {each.chunk_id: each.fused_score for each in fused})
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


def _search_words(search: Search) -> dict[uuid.UUID, float]:
    search.words = _question_words(search)
    terms = [word.term for word in search.words]
    search.statistics = bm25.read_statistics(
        tenant_id=search.tenant_id, collection_ids=search.collection_ids, terms=terms
    )
    if not search.options.words:
        return {}
    return bm25.search(
        tenant_id=search.tenant_id,
        collection_ids=search.collection_ids,
        terms=terms,
        statistics=search.statistics,
        limit=search.options.leg_candidates,
        document_ids=search.narrowed.document_ids,
    )


def _search_vectors(search: Search, by_word: dict[uuid.UUID, float]) -> dict[uuid.UUID, float]:
    """The nearest chunks, and the real score of those that only BM25 found."""
    if search.index is None or search.vector is None:
        return {}
    found = vectors.search(
        index=search.index,
        collection_ids=search.collection_ids,
        question=search.vector,
        limit=search.options.leg_candidates,
        document_ids=search.narrowed.document_ids,
    )
    rest = [chunk for chunk in by_word if chunk not in found]
    return found | vectors.score(index=search.index, chunk_ids=rest, question=search.vector)


def _question_words(search: Search) -> list[Word]:
    """Stemmed as English, as the question's own language, and as the documents'.

    A question is too short to be sure of its language, and stems match only their like.
    """
    languages = selectors.document_languages(search.tenant_id, search.collection_ids)
    stemmed = [words_of(search.question, each) for each in ("en", search.language, *languages)]
    return list(dict.fromkeys(word for words in stemmed for word in words))
