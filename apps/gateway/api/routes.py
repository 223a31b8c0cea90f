"""The addresses below `/v1/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from apps.gateway.api.chat import complete_chat
from apps.gateway.api.errors import ApiError
from apps.gateway.api.exchange import Exchange
from apps.gateway.api.models import list_models, show_model
from apps.gateway.api.openapi import show_description
from apps.gateway.api.scoring import embed_texts, rerank_texts

Handler = Callable[[Exchange, str], Awaitable[None]]
Route = Mapping[str, Handler]  # method to handler


def _read(handler: Handler) -> Route:
    return {"GET": handler, "HEAD": handler}


_ROUTES: dict[str, Route] = {
    "/v1/models": _read(list_models),
    "/v1/chat/completions": {"POST": complete_chat},
    "/v1/embeddings": {"POST": embed_texts},
    "/v1/rerank": {"POST": rerank_texts},
    "/v1/openapi.json": _read(show_description),
}
_MODEL = "/v1/models/"  # names of models may have slashes
_SHOW_MODEL = _read(show_model)


def pattern_of(path: str) -> str:
    """The address without the names in it, one of few: for metrics."""
    if path in _ROUTES:
        return path
    return _MODEL + "{model}" if path.startswith(_MODEL) else "other"


def find_route(path: str) -> tuple[Route, str]:
    """The route of an address, and the model that it names; raises ApiError."""
    route = _ROUTES.get(path)
    if route is not None:
        return route, ""
    if path.startswith(_MODEL) and len(path) > len(_MODEL):
        return _SHOW_MODEL, path.removeprefix(_MODEL)
    raise ApiError(404, "not_found", "There is nothing here. See /v1/openapi.json.")
