"""Hop search: both legs, fused, with their text."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter

from apps.documents.models import Chunk
from apps.inference.types import Vectors
from apps.retrieval import bm25, embedders, filters, fusion, selectors, vectors
from apps.retrieval.analysis import Word, words_of
from apps.retrieval.hops.state import Search
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.plans import SearchPlan, plan_search
from apps.retrieval.snapshots import snapshot
from apps.retrieval.types import Candidate
from apps.telemetry.hops import Hop
from apps.telemetry.metrics import SHORT_SEARCHES

Found = dict[uuid.UUID, float]


def find(search: Search, hop: Hop) -> list[tuple[Candidate, Chunk]]:
    """The best fused candidates with their text: one short scope that sees one moment."""
    with snapshot(search.tenant_id):
        search.documents = filters.resolve(
            tenant_id=search.tenant_id,
            collection_ids=search.collection_ids,
            narrowed=search.narrowed,
        )
        with _timed(hop, "words_ms"):
            by_word = _search_words(search)
        with _timed(hop, "vectors_ms"):
            by_vector = _search_vectors(search, by_word, hop)
        with _timed(hop, "text_ms"):
            by_word, by_vector = _searchable(search, by_word, by_vector)
            fused = fusion.fuse(by_vector, by_word)
            best = fused[: search.texts_wanted]
            chunks = selectors.read_chunks(search.tenant_id, [each.chunk_id for each in best])
    search.note_order("bm25", by_word)
    search.note_order("vectors", by_vector)
    search.note_order("fused", {each.chunk_id: each.fused_score for each in fused})
    hop.set(
        vector_candidates=len(by_vector),
        bm25_candidates=len(by_word),
        fused_candidates=len(fused),
        chunks_searched=search.statistics.chunk_count,
    )
    _note_shares(hop, [each.chunk_id for each in best], by_word, search.nearest)
    if search.vector is None and search.notices:
        hop.end_as("degraded", search.notices[-1].code)
    return [(each, chunks[each.chunk_id]) for each in best]


def _search_words(search: Search) -> Found:
    search.words = _question_words(search)
    terms = [word.term for word in search.words]
    search.statistics = bm25.read_statistics(
        tenant_id=search.tenant_id,
        collection_ids=search.collection_ids,
        terms=terms,
        generation=search.generation,
    )
    if not search.options.words:
        return {}
    return bm25.search(
        tenant_id=search.tenant_id,
        collection_ids=search.collection_ids,
        terms=terms,
        statistics=search.statistics,
        limit=search.options.leg_candidates,
        document_ids=search.documents.document_ids,
        generation=search.generation,
    )


def _search_vectors(search: Search, by_word: Found, hop: Hop) -> Found:
    """The nearest chunks, and the real score of those that only BM25 found."""
    if search.index is None or search.vector is None:
        hop.set(plan="none")
        return {}
    hop.set(index=str(search.index.id))
    found = _nearest(search, search.index, search.vector, hop)
    rest = [chunk for chunk in by_word if chunk not in found]
    return found | vectors.score(index=search.index, chunk_ids=rest, question=search.vector)


def _nearest(search: Search, index: EmbeddingIndex, question: Vectors, hop: Hop) -> Found:
    """By the plan; where that finds fewer rows than there are, exactly. That is counted."""

    def by(plan: SearchPlan) -> Found:
        return vectors.search(
            index=index,
            collection_ids=search.collection_ids,
            question=question,
            limit=search.options.leg_candidates,
            document_ids=search.documents.document_ids,
            plan=plan,
        )

    start = perf_counter()
    plan = search.plan = plan_search(
        index=index,
        options=search.options,
        collection_ids=search.collection_ids,
        narrowed=search.documents,
    )
    found = by(plan)
    search.nearest_ms = (perf_counter() - start) * 1000
    search.nearest = list(found)
    hop.set(plan=plan.kind, plan_reason=plan.reason, rows=len(found), searchable=plan.rows)
    if plan.ef_search is not None:
        hop.set(ef_search=plan.ef_search)
    short = min(search.options.leg_candidates, plan.rows) - len(found)
    if plan.kind == "hnsw" and short > 0:
        SHORT_SEARCHES.inc()
        hop.set(short_rows=short)
        found = by(plan.exactly)
    return found


def _searchable(search: Search, by_word: Found, by_vector: Found) -> tuple[Found, Found]:
    """What may be shown; of the vectors, in languages that their model knows."""
    languages = selectors.searchable_chunks(
        search.tenant_id, {*by_word, *by_vector}, search.collection_ids
    )
    return (
        {chunk: score for chunk, score in by_word.items() if chunk in languages},
        {
            chunk: score
            for chunk, score in by_vector.items()
            if chunk in languages
            and search.index is not None
            and embedders.knows_language(search.index, languages[chunk])
        },
    )


def _note_shares(
    hop: Hop,
    best: Sequence[uuid.UUID],
    by_word: Mapping[uuid.UUID, float],
    nearest: Sequence[uuid.UUID],
) -> None:
    """Which share of the candidates that go on each leg alone has found."""
    if best:
        near = set(nearest)
        only_words = sum(chunk in by_word and chunk not in near for chunk in best)
        only_vectors = sum(chunk in near and chunk not in by_word for chunk in best)
        hop.set(
            only_words_share=round(only_words / len(best), 3),
            only_vectors_share=round(only_vectors / len(best), 3),
        )


@contextmanager
def _timed(hop: Hop, name: str) -> Iterator[None]:
    start = perf_counter()
    yield
    hop.set(**{name: round((perf_counter() - start) * 1000, 2)})


def _question_words(search: Search) -> list[Word]:
    """Stemmed as English, as the question's own language, and as the documents'.

    A question is too short to be sure of its language, and stems match only their like.
    """
    languages = selectors.document_languages(search.tenant_id, search.collection_ids)
    stemmed = [words_of(search.question, each) for each in ("en", search.language, *languages)]
    return list(dict.fromkeys(word for words in stemmed for word in words))
