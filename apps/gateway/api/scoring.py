"""`POST /v1/embeddings` and `POST /v1/rerank`: texts in, figures out, under the same limits."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.gateway.api.entrance import find_model, let_in
from apps.gateway.api.errors import context_exceeded, invalid
from apps.gateway.api.exchange import Exchange
from apps.gateway.api.keys import holder_of
from apps.gateway.api.schemas import EmbeddingRequest, RerankDocument, RerankRequest, parse
from apps.gateway.api.spending import spend
from apps.gateway.calling import embed, rerank
from apps.gateway.calling.catalogue import load
from apps.gateway.types import Model, Usage
from apps.inference.generators.tokens import estimate_tokens

_MOST_CHARS_PER_TOKEN = 16  # as for prompts: longer is too long for certain


async def embed_texts(exchange: Exchange, _: str) -> None:
    """One unit vector a text, in the order given."""
    holder = await holder_of(exchange)
    asked = parse(EmbeddingRequest, await exchange.body())
    texts = _texts(asked)
    offer = await load()
    model = find_model(holder, offer, asked.model, "embedding")
    _check_lengths(model, texts, "input")
    async with let_in(exchange, holder.caller()) as admission:
        spent = await spend(
            admission,
            offer,
            model,
            hop="embed",
            prompt_tokens=sum(map(estimate_tokens, texts)),
            work=lambda report: embed(model, texts, report),
        )
        vectors = spent.result.vectors
        _check_dimensions(asked, vectors.shape[1])
        encoded = asked.encoding_format == "base64"
        data = [_vector(place, row, encoded=encoded) for place, row in enumerate(vectors)]
        reply = {"object": "list", "data": data, "model": asked.model}
        await exchange.reply_json(
            {**reply, "usage": _usage(spent.result.usage)}, {"x-ragsite-cost-micros": spent.micros}
        )


async def rerank_texts(exchange: Exchange, _: str) -> None:
    """The documents' scores against the query, best first."""
    holder = await holder_of(exchange)
    asked = parse(RerankRequest, await exchange.body())
    texts = [each.text if isinstance(each, RerankDocument) else each for each in asked.documents]
    offer = await load()
    model = find_model(holder, offer, asked.model, "rerank")
    _check_lengths(model, [asked.query], "query")
    _check_lengths(model, texts, "documents")
    query_tokens = estimate_tokens(asked.query)
    async with let_in(exchange, holder.caller()) as admission:
        spent = await spend(
            admission,
            offer,
            model,
            hop="rerank",
            prompt_tokens=sum(query_tokens + estimate_tokens(text) for text in texts),
            work=lambda report: rerank(model, asked.query, texts, report),
        )
        best_first = sorted(enumerate(spent.result.scores), key=lambda each: -each[1])
        results = [_result(asked, texts, *each) for each in best_first[: asked.top_n]]
        reply = {"object": "list", "id": f"rerank-{admission.id.hex}", "model": asked.model}
        usage = _usage(spent.result.usage)
        await exchange.reply_json(
            {**reply, "results": results, "usage": usage}, {"x-ragsite-cost-micros": spent.micros}
        )


def _texts(asked: EmbeddingRequest) -> list[str]:
    """What is to be embedded; raises ApiError for tokens in place of text, and for nothing."""
    given = [asked.input] if isinstance(asked.input, str) else asked.input
    texts = [each for each in given if isinstance(each, str)]
    if len(texts) < len(given):
        words = "input: send text. Tokens are those of another vocabulary than this model's."
        raise invalid(words, param="input")
    if not texts or not all(text.strip() for text in texts):
        raise invalid("input: there is nothing in it to embed.", param="input")
    return texts


def _check_lengths(model: Model, texts: list[str], param: str) -> None:
    longest = max(map(len, texts))
    if longest > model.context_tokens * _MOST_CHARS_PER_TOKEN:
        error = context_exceeded(
            f"{param}: a text has {longest:,} characters; {model.alias} reads "
            f"{model.context_tokens:,} tokens at most."
        )
        raise error.at(param)


def _check_dimensions(asked: EmbeddingRequest, dimensions: int) -> None:
    if asked.dimensions not in (None, dimensions):
        words = f"dimensions: vectors of {asked.model} have {dimensions}, and cannot be cut."
        raise invalid(words, param="dimensions")


def _vector(place: int, row: npt.NDArray[np.float32], *, encoded: bool) -> dict[str, Any]:
    raw = row.astype("<f4")
    value = base64.b64encode(raw.tobytes()).decode() if encoded else raw.tolist()
    return {"object": "embedding", "index": place, "embedding": value}


def _result(asked: RerankRequest, texts: list[str], place: int, score: float) -> dict[str, Any]:
    document = {"document": {"text": texts[place]}} if asked.return_documents else {}
    return {"index": place, "relevance_score": score, **document}


def _usage(usage: Usage) -> dict[str, int]:
    return {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.total}
