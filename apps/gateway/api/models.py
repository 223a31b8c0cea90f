"""`GET /v1/models`: what a key may use."""

from __future__ import annotations

from typing import Any

from apps.gateway.api.errors import model_not_found
from apps.gateway.api.exchange import Exchange
from apps.gateway.api.keys import KeyHolder, holder_of
from apps.gateway.api.providers import Offered, provider_of, providers
from apps.gateway.calling.catalogue import load
from apps.gateway.types import Model


async def list_models(exchange: Exchange, _: str) -> None:
    holder = await holder_of(exchange)
    offer = await load()
    cards = [_card(model) for model in offer.models if holder.may_use(model.alias)]
    for provider in providers():
        offered = await provider.models(holder.key)
        cards += [_offered(each, each.names[0]) for each in offered if holder.may_use(*each.names)]
    await exchange.reply_json({"object": "list", "data": cards})


async def show_model(exchange: Exchange, name: str) -> None:
    holder = await holder_of(exchange)
    card = await _find(holder, name)
    if card is None:
        raise model_not_found(name)
    await exchange.reply_json(card)


async def _find(holder: KeyHolder, name: str) -> dict[str, Any] | None:
    provider = provider_of(name)
    if provider is not None:
        offered = await provider.find(holder.key, name)
        allowed = offered is not None and holder.may_use(name, *offered.names)
        return _offered(offered, name) if offered is not None and allowed else None
    models = (await load()).models if holder.may_use(name) else ()
    return next((_card(model) for model in models if model.alias == name), None)


def _card(model: Model) -> dict[str, Any]:
    more = {"label": model.label, "kind": model.kind, "context_tokens": model.context_tokens}
    return {**_openai(model.alias, 0), "ragsite": more}


def _offered(offered: Offered, name: str) -> dict[str, Any]:
    return {**_openai(name, offered.created), "ragsite": {"label": offered.label, "kind": "chat"}}


def _openai(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "ragsite"}
