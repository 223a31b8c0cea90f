"""Hop embed: the question's vector, by the model of the index that is searched."""

from __future__ import annotations

from time import perf_counter

from django.utils.translation import gettext_noop

from apps.documents.tokens import estimate_tokens
from apps.inference.errors import InferenceError
from apps.inference.types import Embedder, Vectors
from apps.retrieval import embedders, embedding_cache
from apps.retrieval.embedding_cache import Lookup, Question
from apps.retrieval.hops.state import Search, degrade, skip
from apps.retrieval.models import EmbeddingIndex
from apps.retrieval.types import Notice
from apps.telemetry.hops import Hop, ModelUse

EMBEDDER_DOWN = Notice(
    "embedder_down",
    gettext_noop(
        "Search by meaning is not available at the moment: these passages were found by their "
        "words."
    ),
)
INDEX_BEHIND = Notice(
    "index_behind",
    gettext_noop(
        "The documents were indexed with another embedding model than the one in use: these "
        "passages were found by their words."
    ),
)


def embed(search: Search, hop: Hop) -> None:
    """Set `search.vector`, where the model is up and knows the question's language."""
    index = search.index
    hop.set(language=search.language)
    if index is None or not search.question.strip():
        return skip(hop, "nothing to search")
    if not search.options.vectors:
        return skip(hop, "switched off")
    hop.set(index=str(index.id), model=index.model_id)
    if not embedders.knows_language(index, search.language):
        return skip(hop, "language unknown to the model")
    try:
        embedder = embedders.embedder_of(index)
        if (embedder.model_id, embedder.dimensions) != (index.model_id, index.dimensions):
            hop.end_as("degraded", "index_behind")
            search.notices.append(INDEX_BEHIND)
            return None
        search.vector = _vector(search, index, embedder, hop)
    except InferenceError as exc:
        degrade(search, hop, exc, EMBEDDER_DOWN)
    return None


def _vector(search: Search, index: EmbeddingIndex, embedder: Embedder, hop: Hop) -> Vectors:
    """From the cache, or by the model; booked either way."""
    start = perf_counter()
    question = Question(
        tenant_id=search.tenant_id,
        model_id=index.model_id,
        dimensions=index.dimensions,
        prompt=embedders.query_prompt_of(index),
        text=search.question,
    )
    found = embedding_cache.look_up(question, bypass="evaluation" if search.measured else "")
    hop.set(cache=found.result, tokens=estimate_tokens(search.question))
    if found.vector is not None:
        hop.end_as("cached")
        _book(hop, found, start)
        return found.vector
    error_code = ""
    try:
        embedding_began = perf_counter()
        vector = embedder.embed_query(search.question)
        embed_ms = (perf_counter() - embedding_began) * 1000
    except InferenceError as exc:
        error_code = exc.code
        raise
    finally:
        _book(hop, found, start, error_code)
    if found.result == "miss":
        embedding_cache.keep(question, vector, embed_ms)
    return vector


def _book(hop: Hop, found: Lookup, start: float, error_code: str = "") -> None:
    total_ms = (perf_counter() - start) * 1000
    hop.used(
        ModelUse(
            kind="embed",
            model=str(hop.attributes["model"]),
            tokens=0 if error_code else int(hop.attributes["tokens"]),
            total_ms=total_ms,
            cache=found.result,
            cache_reason=found.reason,
            saved_ms=max(0.0, found.embed_ms - total_ms),
            error_code=error_code,
        )
    )
