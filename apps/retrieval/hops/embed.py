"""Hop embed: the question's vector, by the model of the index that is searched."""

from __future__ import annotations

from apps.documents.tokens import estimate_tokens
from apps.inference.errors import InferenceError
from apps.retrieval import embedders
from apps.retrieval.hops.state import Search, degrade, skip
from apps.retrieval.types import Notice
from apps.retrieval.uses import counted
from apps.telemetry.hops import Hop

EMBEDDER_DOWN = Notice(
    "embedder_down",
    "Search by meaning is not available at the moment: these passages were found by their words.",
)
INDEX_BEHIND = Notice(
    "index_behind",
    "The documents were indexed with another embedding model than the one in use: these passages "
    "were found by their words.",
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
        with counted(hop, "embed", index.model_id, estimate_tokens(search.question)):
            search.vector = embedder.embed_query(search.question)
    except InferenceError as exc:
        degrade(search, hop, exc, EMBEDDER_DOWN)
    return None
