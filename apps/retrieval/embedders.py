"""Which embedder, reranker and languages belong to an embedding index."""

from __future__ import annotations

from typing import Literal, cast

from django.conf import settings

from apps.inference import registry
from apps.inference.registry import EmbedderSpec
from apps.inference.types import Embedder, Reranker
from apps.retrieval.models import EmbeddingIndex, EmbeddingModel


def spec_of(model: EmbeddingModel) -> EmbedderSpec:
    """The model as the registry of model clients knows it."""
    kind = cast(Literal["sentence-transformers", "tei"], model.kind)
    return EmbedderSpec(kind, model.location, model.query_prompt, model.document_prompt)


def embedder_by(model: EmbeddingModel | None) -> Embedder:
    """The embedder of a named model; the settings' own for None.

    Raises an InferenceError where it is not configured.
    """
    return registry.get_embedder() if model is None else registry.get_embedder(spec_of(model))


def embedder_of(index: EmbeddingIndex) -> Embedder:
    """The embedder of the model that the index's vectors are by.

    Raises an InferenceError where it is not configured, or not to be reached.
    """
    return embedder_by(index.embedder)


def query_prompt_of(index: EmbeddingIndex) -> str:
    """What the index's model is given before a question."""
    return index.embedder.query_prompt if index.embedder else settings.EMBEDDING_QUERY_PROMPT


def reranker_of(index: EmbeddingIndex | None) -> Reranker | None:
    """The reranker for questions searched in the index; None where it is switched off."""
    if index is None or index.embedder is None:
        return registry.get_reranker()
    return registry.get_reranker(spec_of(index.embedder))


def knows_language(index: EmbeddingIndex, language: str) -> bool:
    """Whether the index's model was declared to know it; what cannot be told passes."""
    known = index.embedder.languages if index.embedder else settings.EMBEDDING_LANGUAGES
    return not language or "*" in known or language in known


def reranker_knows(index: EmbeddingIndex | None, reranker: Reranker, language: str) -> bool:
    """Whether the reranker was declared to know it: late interaction as its embedding model."""
    if reranker.name == "late-interaction":
        return index is None or knows_language(index, language)
    known = settings.RERANKER_LANGUAGES
    return not language or "*" in known or language in known
