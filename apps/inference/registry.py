"""Embedders and rerankers, one of each a process: the settings' own, or a named model's.

The only module here that reads Django's settings, and it does so on first use.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cache
from typing import Literal

from django.conf import settings

from apps.inference import errors
from apps.inference.embedders.sentence_transformers import SentenceTransformersEmbedder
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.local_encoder import LocalEncoder
from apps.inference.rerankers.cross_encoder import CrossEncoderReranker
from apps.inference.rerankers.late_interaction import LateInteractionReranker
from apps.inference.rerankers.tei import TeiLateInteractionReranker, TeiReranker
from apps.inference.rerankers.token_cache import TokenCache
from apps.inference.transport import Server
from apps.inference.types import Embedder, Reranker

# A question waits for a vector no longer than this; then it is answered from BM25 alone.
TEI_TIMEOUT_S = 30.0

_loading = threading.Lock()


@dataclass(frozen=True)
class EmbedderSpec:
    """An embedding model beside the settings' own."""

    kind: Literal["sentence-transformers", "tei"]
    location: str  # name or path of the model; URL of the server
    query_prompt: str = ""
    document_prompt: str = ""


@cache
def get_embedder(spec: EmbedderSpec | None = None) -> Embedder:
    """The embedder of a model; without one, that named by EMBEDDER.

    Raises NotConfigured where an address is missing, or a model cannot be loaded.
    """
    if spec is not None:
        return _named_embedder(spec)
    if settings.EMBEDDER == "tei":
        return TeiEmbedder(
            _tei_server(settings.TEI_URL), query_prompt=settings.EMBEDDING_QUERY_PROMPT
        )
    return SentenceTransformersEmbedder(
        _local_encoder(settings.EMBEDDING_MODEL), query_prompt=settings.EMBEDDING_QUERY_PROMPT
    )


@cache
def get_reranker(spec: EmbedderSpec | None = None) -> Reranker | None:
    """The reranker named by RERANKER; None for `off`. Raises NotConfigured like get_embedder.

    Late interaction is by an embedding model: that of `spec`, or the settings' own.
    """
    match settings.RERANKER:
        case "off":
            return None
        case "tei":
            url, key = settings.TEI_RERANK_URL, settings.TEI_API_KEY
            return TeiReranker(Server("reranking", url, key, TEI_TIMEOUT_S))
        case "cross-encoder":
            return _cross_encoder()
        case _:
            return _late_interaction(spec or _own_model())


def forget() -> None:
    """Make the next call build anew: settings changed, or the process was forked."""
    global _loading
    _loading = threading.Lock()  # in a fork, another thread may have held it
    for cached in (get_embedder, get_reranker, _load_encoder):
        cached.cache_clear()


# Connections must not be shared between a parent and its forked children.
os.register_at_fork(after_in_child=forget)


def _named_embedder(spec: EmbedderSpec) -> Embedder:
    asked, told = spec.query_prompt, spec.document_prompt
    if spec.kind == "tei":
        server = _tei_server(spec.location)
        return TeiEmbedder(server, query_prompt=asked, document_prompt=told)
    encoder = _local_encoder(spec.location)
    return SentenceTransformersEmbedder(encoder, query_prompt=asked, document_prompt=told)


def _own_model() -> EmbedderSpec:
    if settings.EMBEDDER == "tei":
        return EmbedderSpec("tei", settings.TEI_URL)
    return EmbedderSpec("sentence-transformers", settings.EMBEDDING_MODEL)


def _late_interaction(spec: EmbedderSpec) -> Reranker:
    if spec.kind == "tei":
        return TeiLateInteractionReranker(_tei_server(spec.location))
    cache = TokenCache(settings.TOKEN_CACHE_MIB << 20)
    return LateInteractionReranker(_local_encoder(spec.location), cache=cache)


def _tei_server(url: str) -> Server:
    return Server("embedding", url, settings.TEI_API_KEY, TEI_TIMEOUT_S)


def _local_encoder(name: str) -> LocalEncoder:
    with _loading:  # two threads that ask at once would have the model in memory twice
        return _load_encoder(name)


@cache
def _load_encoder(name: str) -> LocalEncoder:
    try:
        return LocalEncoder(
            name, threads=settings.INFERENCE_THREADS, dtype=settings.EMBEDDING_DTYPE
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as exc:
        raise errors.NotConfigured(
            f"The embedding model {name!r} cannot be loaded ({type(exc).__name__}). Name a model "
            "that sentence-transformers finds on this machine, or a folder that holds one."
        ) from exc


def _cross_encoder() -> CrossEncoderReranker:
    if not settings.RERANKER_MODEL:
        raise errors.NotConfigured(
            "RERANKER is cross-encoder but RERANKER_MODEL is empty. Name a model, or set RERANKER "
            "to late-interaction."
        )
    return CrossEncoderReranker(settings.RERANKER_MODEL, threads=settings.INFERENCE_THREADS)
