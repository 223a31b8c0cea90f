"""Which embedder, reranker and languages belong to an embedding index."""

from __future__ import annotations

from django.conf import settings

from apps.inference import registry
from apps.inference.types import Embedder, Reranker
from apps.retrieval.models import EmbeddingIndex


def embedder_of(index: EmbeddingIndex) -> Embedder:
    """The embedder of the model that the index's vectors are by.

    Raises an InferenceError where it is not configured, or not to be reached.
    """
    return registry.get_embedder()


def reranker_of(index: EmbeddingIndex | None) -> Reranker | None:
    """The reranker for questions searched in the index; None where it is switched off."""
    return registry.get_reranker()


def knows_language(index: EmbeddingIndex, language: str) -> bool:
    """Whether the index's model was declared to know it; what cannot be told passes."""
    known = index.embedder.languages if index.embedder else settings.EMBEDDING_LANGUAGES
    return not language or "*" in known or language in known
