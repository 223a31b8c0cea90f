"""Embedding and reranking at whichever upstream can take it.

Clients of TEI and of the process's own models block, so they run in threads of their own. A
thread cannot be broken off: a caller that goes away leaves it to end by its timeout.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from apps.gateway.calling.attempts import Attempts, DeadlineOver
from apps.gateway.calling.reports import CallReport, Embedded, Scored
from apps.gateway.calling.upstreams import embedder_of, reranker_of, server_of
from apps.gateway.types import Model, Route, Usage
from apps.inference import errors
from apps.inference.generators.tokens import estimate_tokens
from apps.inference.transport import Server, fetch_json

T = TypeVar("T")

_executor = ThreadPoolExecutor(max_workers=16, thread_name_prefix="texts")


async def embed(model: Model, texts: Sequence[str], report: CallReport) -> Embedded:
    """The texts' vectors, of unit length. Raises like `generate`."""

    async def at(route: Route) -> Embedded:
        if route.upstream.kind == "openai":
            return await _embed_at_openai(route, texts)
        embedder = embedder_of(route.upstream)
        vectors = await _in_thread(embedder.embed_documents, texts)
        return Embedded(vectors, _estimated(texts))

    return await _at_some_upstream(model, report, at)


async def rerank(model: Model, query: str, texts: Sequence[str], report: CallReport) -> Scored:
    """The texts' scores against the query. Raises like `generate`."""

    async def at(route: Route) -> Scored:
        if route.upstream.kind == "openai":
            return await _rerank_at_openai(route, query, texts)
        reranker = reranker_of(route.upstream)
        scores = await _in_thread(reranker.score, query, texts)
        return Scored(scores, _estimated([query] * len(texts) + list(texts)))

    return await _at_some_upstream(model, report, at)


async def _at_some_upstream(
    model: Model, report: CallReport, at: Callable[[Route], Awaitable[T]]
) -> T:
    attempts = Attempts(model, report)

    async def attempt() -> T:
        async with attempts.placed() as held:
            upstream = held.place.route.upstream
            try:
                async with asyncio.timeout_at(attempts.deadline(upstream)):
                    return await at(held.place.route)
            except TimeoutError as exc:
                raise DeadlineOver(
                    f"The model had not finished within {upstream.deadline_s:g} s. "
                    "Send fewer or shorter texts."
                ) from exc

    return await attempts.run(attempt)


async def _in_thread(function: Callable[..., T], *args: object) -> T:
    call = functools.partial(function, *args)
    return await asyncio.get_running_loop().run_in_executor(_executor, call)


def _estimated(texts: Sequence[str]) -> Usage:
    """Neither TEI's client nor the models here tell what they read."""
    return Usage(prompt_tokens=sum(map(estimate_tokens, texts)), estimated=True)


async def _embed_at_openai(route: Route, texts: Sequence[str]) -> Embedded:
    server = server_of(route.upstream)
    body = {"input": list(texts), "encoding_format": "float"}
    reply = await _post(server, "/embeddings", route, body)
    try:
        rows = {int(item["index"]): item["embedding"] for item in reply["data"]}
        vectors = np.asarray([rows[index] for index in range(len(texts))], np.float32)
    except (KeyError, TypeError, ValueError) as exc:
        raise _unexpected(server, "/embeddings") from exc
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise _unexpected(server, "/embeddings")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Embedded(vectors / np.maximum(norms, 1e-12), _told(reply) or _estimated(texts))


async def _rerank_at_openai(route: Route, query: str, texts: Sequence[str]) -> Scored:
    """By `/v1/rerank`, as vLLM and others have it after Jina and Cohere."""
    server = server_of(route.upstream)
    reply = await _post(server, "/rerank", route, {"query": query, "documents": list(texts)})
    try:
        found = {int(item["index"]): float(item["relevance_score"]) for item in reply["results"]}
        scores = [found[index] for index in range(len(texts))]
    except (KeyError, TypeError, ValueError) as exc:
        raise _unexpected(server, "/rerank") from exc
    if not np.isfinite(scores).all():
        raise _unexpected(server, "/rerank")
    return Scored(scores, _told(reply) or _estimated([query] * len(texts) + list(texts)))


async def _post(server: Server, path: str, route: Route, body: dict[str, Any]) -> Any:
    if route.model:
        body["model"] = route.model
    return await fetch_json(server, "POST", server.url + path, body=body)


def _told(reply: Any) -> Usage | None:
    usage = reply.get("usage")
    told = (
        usage.get("prompt_tokens", usage.get("total_tokens")) if isinstance(usage, dict) else None
    )
    return Usage(prompt_tokens=told) if isinstance(told, int) and told >= 0 else None


def _unexpected(server: Server, path: str) -> errors.ProtocolError:
    return errors.ProtocolError(
        f"{server.where} answered, but {path} is not as the protocol says. "
        "Check that the address is that of the right kind of server."
    )
