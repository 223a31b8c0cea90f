"""Hops embed, search and rerank: from a question to the passages that may answer it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from django.conf import settings

from apps.retrieval import selectors
from apps.retrieval.analysis import detect_language
from apps.retrieval.hops.embed import embed
from apps.retrieval.hops.find import find
from apps.retrieval.hops.rerank import choose, passage_of, rerank
from apps.retrieval.hops.state import Search
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.normalization import normalize
from apps.retrieval.options import SearchFilter, SearchOptions, options_for
from apps.retrieval.recall import offer_sample
from apps.retrieval.types import Retrieval
from apps.telemetry.hops import Trace


def retrieve(
    *,
    tenant_id: uuid.UUID,
    question: str,
    collection_ids: Sequence[uuid.UUID],
    trace: Trace,
    limit: int = 8,
    narrowed: SearchFilter | None = None,
    options: SearchOptions | None = None,
    index: EmbeddingIndex | None = None,
) -> Retrieval:
    """The passages of the collections that suit `question`, best first, at most `limit`.

    Only ready documents of the tenant are searched, whatever ids are given; `narrowed` names
    which of them, weighed as parts of their collections. `options` stand in for the tenant's
    profile, `index` for the embedding index in force. A broken embedder or reranker degrades the
    result and adds a notice; it never raises for them. Records hops "embed", "search" and
    "rerank" in `trace`.
    """
    limit_chars = settings.QUESTION_MAX_CHARS
    text = normalize(question[:limit_chars])[:limit_chars]  # some characters become several
    search = Search(
        tenant_id=tenant_id,
        question=text,
        collection_ids=list(collection_ids),
        limit=limit,
        language=detect_language(text),
        options=options or options_for(tenant_id),
        narrowed=narrowed or SearchFilter(),
        index=index or selectors.active_index(tenant_id),
        measured=trace.source == "evaluation",
    )
    with trace.hop("embed") as hop:
        embed(search, hop)
    with trace.hop("search") as hop:
        candidates = find(search, hop)
    offer_sample(search, trace)
    with trace.hop("rerank") as hop:
        ranked = rerank(search, candidates, hop)
        chosen = choose(search, ranked, hop)
    passages = tuple(passage_of(search, item) for item in chosen)
    return Retrieval(passages, tuple(search.notices), search.orders)
