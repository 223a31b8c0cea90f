"""The embedder and reranker that the settings name, one of each a process; generators on demand.

The only module here that reads Django's settings, and it does so on first use.
"""

from __future__ import annotations

import os
from functools import cache

from django.conf import settings

from apps.inference import errors
from apps.inference.embedders.sentence_transformers import SentenceTransformersEmbedder
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.generators.openai import OpenAIGenerator
from apps.inference.generators.tgi import TgiGenerator
from apps.inference.local_encoder import LocalEncoder
from apps.inference.rerankers.cross_encoder import CrossEncoderReranker
from apps.inference.rerankers.late_interaction import LateInteractionReranker
from apps.inference.rerankers.tei import TeiLateInteractionReranker, TeiReranker
from apps.inference.transport import Server
from apps.inference.types import Embedder, Generator, Reranker

# A question waits for a vector no longer than this; then it is answered from BM25 alone.
TEI_TIMEOUT_S = 30.0


@cache
def get_embedder() -> Embedder:
    """The embedder named by EMBEDDER. Raises NotConfigured where its address is missing."""
    if settings.EMBEDDER == "tei":
        return TeiEmbedder(_tei_server(), query_prompt=settings.EMBEDDING_QUERY_PROMPT)
    return SentenceTransformersEmbedder(
        _local_encoder(), query_prompt=settings.EMBEDDING_QUERY_PROMPT
    )


@cache
def get_reranker() -> Reranker | None:
    """The reranker named by RERANKER; None for `off`. Raises NotConfigured like get_embedder."""
    match settings.RERANKER:
        case "off":
            return None
        case "tei":
            url, key = settings.TEI_RERANK_URL, settings.TEI_API_KEY
            return TeiReranker(Server("reranking", url, key, TEI_TIMEOUT_S))
        case "cross-encoder":
            return _cross_encoder()
        case _ if settings.EMBEDDER == "tei":
            return TeiLateInteractionReranker(_tei_server())
        case _:
            return LateInteractionReranker(_local_encoder())


def make_tgi(url: str, key: str = "") -> Generator:
    """A generator at a text-generation-inference server."""
    return TgiGenerator(Server("TGI", url, key, settings.GENERATION_TIMEOUT_S))


def make_openai(url: str, key: str = "", model: str = "") -> Generator:
    """A generator at an OpenAI-compatible server; `url` includes `/v1`."""
    server = Server("OpenAI-compatible", url, key, settings.GENERATION_TIMEOUT_S)
    return OpenAIGenerator(server, model=model)


def forget() -> None:
    """Make the next call build anew: settings changed, or the process was forked."""
    for cached in (get_embedder, get_reranker, _local_encoder):
        cached.cache_clear()


# Connections must not be shared between a parent and its forked children.
os.register_at_fork(after_in_child=forget)


def _tei_server() -> Server:
    return Server("embedding", settings.TEI_URL, settings.TEI_API_KEY, TEI_TIMEOUT_S)


@cache
def _local_encoder() -> LocalEncoder:
    return LocalEncoder(
        settings.EMBEDDING_MODEL,
        threads=settings.INFERENCE_THREADS,
        dtype=settings.EMBEDDING_DTYPE,
    )


def _cross_encoder() -> CrossEncoderReranker:
    if not settings.RERANKER_MODEL:
        raise errors.NotConfigured(
            "RERANKER is cross-encoder but RERANKER_MODEL is empty. Name a model, or set RERANKER "
            "to late-interaction."
        )
    return CrossEncoderReranker(settings.RERANKER_MODEL, threads=settings.INFERENCE_THREADS)
