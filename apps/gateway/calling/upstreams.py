"""Clients of the upstreams, one of each a process."""

from __future__ import annotations

from functools import lru_cache

from apps.gateway.errors import BadRequest
from apps.gateway.types import Route, Upstream
from apps.inference.embedders.tei import TeiEmbedder
from apps.inference.generators.openai import OpenAIGenerator
from apps.inference.generators.tgi import TgiGenerator
from apps.inference.registry import get_embedder, get_reranker
from apps.inference.rerankers.tei import TeiReranker
from apps.inference.transport import Server
from apps.inference.types import Embedder, Generator, Reranker

# How messages call a server of each kind.
_CALLED = {"tgi": "TGI", "openai": "OpenAI-compatible", "tei": "TEI"}


def server_of(upstream: Upstream) -> Server:
    """The upstream as the transport knows it."""
    return Server(
        _CALLED[upstream.kind],
        upstream.url,
        upstream.key,
        timeout_s=upstream.silence_timeout_s,
        first_timeout_s=upstream.first_token_timeout_s,
        name=upstream.name,
    )


@lru_cache(maxsize=256)
def generator_of(route: Route) -> Generator:
    """The client for a chat model's route: it remembers what it has learnt of the server."""
    server = server_of(route.upstream)
    if route.upstream.kind == "tgi":
        return TgiGenerator(server)
    return OpenAIGenerator(server, model=route.model)


def embedder_of(upstream: Upstream) -> Embedder:
    """The process's own, or one at a TEI server."""
    return get_embedder() if upstream.kind == "local" else _tei_embedder(upstream)


def reranker_of(upstream: Upstream) -> Reranker:
    """The process's own, or one at a TEI server. Raises BadRequest where there is none."""
    reranker = get_reranker() if upstream.kind == "local" else _tei_reranker(upstream)
    if reranker is None:
        raise BadRequest("Reranking is off on this site.")
    return reranker


@lru_cache(maxsize=64)
def _tei_embedder(upstream: Upstream) -> TeiEmbedder:
    return TeiEmbedder(server_of(upstream))


@lru_cache(maxsize=64)
def _tei_reranker(upstream: Upstream) -> TeiReranker:
    return TeiReranker(server_of(upstream))
