"""The models that the settings themselves name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from django.conf import settings

from apps.gateway.types import Model, ModelKind, PromptStyle, Route, Upstream, UpstreamKind
from apps.inference.registry import TEI_TIMEOUT_S

# Names that are stored with conversations and in the ledger.
TGI, OPENAI = "tgi", "openai"
EMBEDDING_ALIAS, EMBEDDING_UPSTREAM = "embedding", "embedding"
RERANKING_ALIAS, RERANKING_UPSTREAM = "reranker", "reranking"
# Longer texts are cut by the model itself; this only bounds what is worth sending.
_TEXT_TOKENS = 8192


@dataclass(frozen=True)
class _Named:
    """What the settings say, so that the models are made again only when they change."""

    tgi: tuple[str, str]
    openai: tuple[str, str, str]
    embedder: tuple[str, str, str]  # EMBEDDER, and the server's address and key
    embedding_model: str
    reranker: tuple[str, str, str]
    context_tokens: int
    max_tokens: int
    passages: int
    prompt: str
    concurrency: int
    queue_timeout_s: float
    timeout_s: float


def own_models() -> tuple[Model, ...]:
    """The settings' models, the default first: the same object while the settings stay."""
    tei_key = settings.TEI_API_KEY
    return _models(
        _Named(
            tgi=(settings.TGI_URL, settings.TGI_API_KEY),
            openai=(settings.OPENAI_URL, settings.OPENAI_API_KEY, settings.OPENAI_MODEL),
            embedder=(settings.EMBEDDER, settings.TEI_URL, tei_key),
            embedding_model=settings.EMBEDDING_MODEL,
            reranker=(settings.RERANKER, settings.TEI_RERANK_URL, tei_key),
            context_tokens=settings.GENERATION_CONTEXT_TOKENS,
            max_tokens=settings.GENERATION_MAX_TOKENS,
            passages=settings.GENERATION_PASSAGES,
            prompt=settings.GENERATION_PROMPT,
            concurrency=settings.GENERATION_CONCURRENCY,
            queue_timeout_s=settings.GENERATION_QUEUE_TIMEOUT_S,
            timeout_s=settings.GENERATION_TIMEOUT_S,
        )
    )


@lru_cache(maxsize=4)
def _models(named: _Named) -> tuple[Model, ...]:
    models: list[Model] = []
    if named.tgi[0]:
        models.append(_chat(named, TGI, "Text Generation Inference", *named.tgi))
    if named.openai[0]:
        url, key, name = named.openai
        label = name or "OpenAI-compatible server"
        models.append(_chat(named, OPENAI, label, url, key, name))
    kind, url, key = named.embedder
    if kind != "tei":
        models.append(_texts("embedding", named.embedding_model, "local"))
    elif url:
        models.append(_texts("embedding", "Text Embeddings Inference", "tei", url, key))
    kind, url, key = named.reranker
    if kind == "tei" and url:
        models.append(_texts("rerank", "Text Embeddings Inference", "tei", url, key))
    elif kind in ("late-interaction", "cross-encoder"):
        # By the process's own reranker, which may well ask a server, but not by that protocol.
        models.append(_texts("rerank", kind.capitalize().replace("-", " "), "local"))
    return tuple(models)


def _chat(
    named: _Named, name: str, label: str, url: str, key: str, upstream_model: str = ""
) -> Model:
    upstream = Upstream(
        name=name,
        kind=cast(UpstreamKind, name),
        url=url,
        key=key,
        max_concurrency=named.concurrency,
        queue_timeout_s=named.queue_timeout_s,
        first_token_timeout_s=named.timeout_s,
        silence_timeout_s=named.timeout_s,
    )
    return Model(
        alias=name,
        label=label,
        context_tokens=named.context_tokens,
        max_tokens=named.max_tokens,
        passages=named.passages,
        prompt=cast(PromptStyle, named.prompt),
        routes=(Route(upstream, upstream_model),),
    )


def _texts(kind: ModelKind, label: str, at: UpstreamKind, url: str = "", key: str = "") -> Model:
    """A model that reads texts and writes none."""
    embeds = kind == "embedding"
    upstream = Upstream(
        name=EMBEDDING_UPSTREAM if embeds else RERANKING_UPSTREAM,
        kind=at,
        url=url,
        key=key,
        first_token_timeout_s=TEI_TIMEOUT_S,
        silence_timeout_s=TEI_TIMEOUT_S,
    )
    return Model(
        alias=EMBEDDING_ALIAS if embeds else RERANKING_ALIAS,
        label=label,
        context_tokens=_TEXT_TOKENS,
        max_tokens=0,
        passages=0,
        prompt="instruct",
        kind=kind,
        routes=(Route(upstream, ""),),
    )
