"""The API's description (OpenAPI 3.1), made from the models that requests are read with."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from apps.gateway.api.exchange import Exchange
from apps.gateway.api.schemas import ChatRequest, EmbeddingRequest, RerankRequest

Schema = dict[str, Any]

_REFERENCES = "#/components/schemas/{model}"
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_REFUSALS = {
    400: "The request cannot be served; `param` names the field at fault",
    401: "No key, or none that works",
    404: "No such model, or not for this key",
    413: "The body is too large",
    429: "A limit was met (Retry-After), or a budget is used up (`insufficient_quota`)",
    503: "No model server, or a part of the site is away (Retry-After)",
}


async def show_description(exchange: Exchange, _: str) -> None:
    """Public: it tells nothing of a tenant."""
    await exchange.reply_json(document())


@cache
def document() -> Schema:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "ragsite, OpenAI-compatible", "version": "1"},
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "schemas": {**_requests(), **_ANSWERS},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _requests() -> Schema:
    kinds = (ChatRequest, EmbeddingRequest, RerankRequest)
    _, found = models_json_schema(
        [(kind, "validation") for kind in kinds], ref_template=_REFERENCES
    )
    definitions: Schema = found["$defs"]
    return definitions


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _reference(name: str) -> Schema:
    return {"$ref": _REFERENCES.format(model=name)}


_USAGE = _object(prompt_tokens=_COUNT, total_tokens=_COUNT)
_CITATION = _object(
    marker={"type": "integer", "minimum": 1},
    document_id={"type": "string", "format": "uuid"},
    document=_TEXT,
    pages=_list({"type": "integer"}),
    snippet=_TEXT,
    score={"type": "number"},
    url=_TEXT,
)
_ANSWERS: Schema = {
    "Error": _object(
        error=_object(
            message=_TEXT,
            type=_TEXT,
            param={"type": ["string", "null"]},
            code={"type": ["string", "null"]},
        )
    ),
    "Model": _object(
        id=_TEXT, object={"const": "model"}, created={"type": "integer"}, owned_by=_TEXT
    ),
    "ModelList": _object(object={"const": "list"}, data=_list(_reference("Model"))),
    "Citation": _CITATION,
    "ChatAnswer": {
        **_object(
            id=_TEXT,
            object={"const": "chat.completion"},
            created={"type": "integer"},
            model=_TEXT,
            choices=_list({"type": "object"}),
            usage={"type": "object"},
        ),
        "description": "Models named rag/… have `citations` besides.",
    },
    "Embeddings": _object(
        object={"const": "list"}, data=_list({"type": "object"}), model=_TEXT, usage=_USAGE
    ),
    "Ranking": _object(
        id=_TEXT,
        model=_TEXT,
        results=_list(_object(index=_COUNT, relevance_score={"type": "number"})),
        usage=_USAGE,
    ),
}


def _operation(summary: str, answer: str, *, asks: str = "", streams: bool = False) -> Schema:
    content: Schema = {"application/json": {"schema": _reference(answer)}}
    if streams:
        content["text/event-stream"] = {"schema": _TEXT}
    refused = {
        str(status): {"description": words, "content": _json("Error")}
        for status, words in _REFUSALS.items()
    }
    operation: Schema = {
        "summary": summary,
        "responses": {"200": {"description": "Done", "content": content}, **refused},
    }
    if asks:
        operation["requestBody"] = {"required": True, "content": _json(asks)}
    return operation


def _json(name: str) -> Schema:
    return {"application/json": {"schema": _reference(name)}}


def _paths() -> Schema:
    name = {"in": "path", "name": "model", "required": True, "schema": _TEXT}
    chat = _operation("Answer a conversation", "ChatAnswer", asks="ChatRequest", streams=True)
    embed = _operation("Embed texts", "Embeddings", asks="EmbeddingRequest")
    return {
        "/v1/models": {"get": _operation("Models that the key may use", "ModelList")},
        "/v1/models/{model}": {"parameters": [name], "get": _operation("One of them", "Model")},
        "/v1/chat/completions": {"post": chat},
        "/v1/embeddings": {"post": embed},
        "/v1/rerank": {"post": _operation("Rank documents", "Ranking", asks="RerankRequest")},
    }
