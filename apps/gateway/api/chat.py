"""`POST /v1/chat/completions`."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol, cast

from apps.gateway.admission import Admission
from apps.gateway.api.asking import generation_request, refuse_unsupported, turns_of
from apps.gateway.api.chunks import DONE, Chunks, Whole, event
from apps.gateway.api.completing import Completion
from apps.gateway.api.entrance import find_model, let_in, opts_out
from apps.gateway.api.errors import model_not_found
from apps.gateway.api.exchange import ClientGone, EventStream, Exchange
from apps.gateway.api.faults import told
from apps.gateway.api.keys import KeyHolder, holder_of
from apps.gateway.api.providers import (
    Asked,
    Attached,
    Provider,
    ProviderEvent,
    Served,
    provider_of,
)
from apps.gateway.api.schemas import ChatRequest, parse
from apps.gateway.calling.catalogue import Catalogue, load
from apps.gateway.types import CacheResult, Model
from apps.inference.errors import Interrupted
from apps.inference.types import Finished, ReasoningDelta, TextDelta, ToolCallDelta
from apps.tenants.models import ApiKey

Events = AsyncGenerator[ProviderEvent, None]


class Answering(Protocol):
    """Where an answer comes from."""

    collection_ids: tuple[uuid.UUID, ...]

    def events(self, admission: Admission) -> Events: ...

    def headers(self) -> dict[str, str]:
        """What is told of it beside its text, as far as that is known."""
        ...


class ByModel:
    """An answer of a model in the catalogue."""

    collection_ids: tuple[uuid.UUID, ...] = ()

    def __init__(
        self, offer: Catalogue, model: Model, asked: ChatRequest, *, opt_out: bool
    ) -> None:
        self._offer, self._model, self._opt_out = offer, model, opt_out
        self._request = generation_request(asked, model)
        self._completion: Completion | None = None

    def events(self, admission: Admission) -> Events:
        self._completion = Completion(
            admission, self._offer, self._model, self._request, opted_out=self._opt_out
        )
        return cast(Events, self._completion.events())

    def headers(self) -> dict[str, str]:
        done = self._completion
        if done is None or done.use.note.result == CacheResult.NONE:
            return {}
        told = {"x-ragsite-cache": str(done.use.note.result)}
        return {**told, "x-ragsite-cost-micros": str(done.cost_micros)}


class ByProvider:
    """An answer of a room above."""

    def __init__(self, provider: Provider, key: ApiKey, asked: Asked) -> None:
        self._provider, self._key, self._asked = provider, key, asked
        self._headers: dict[str, str] = {}
        self.collection_ids = asked.model.collection_ids

    async def events(self, admission: Admission) -> Events:
        async with aclosing(self._provider.answer(self._key, self._asked, admission)) as events:
            async for each in events:
                match each:
                    case Served() if each.cache != CacheResult.NONE:
                        self._headers["x-ragsite-cache"] = str(each.cache)
                    case Attached():
                        self._headers["x-ragsite-cost-micros"] = str(each.cost_micros)
                yield each

    def headers(self) -> dict[str, str]:
        return self._headers


async def complete_chat(exchange: Exchange, _: str) -> None:
    """Answer a conversation, as a stream or whole."""
    holder = await holder_of(exchange)
    asked = parse(ChatRequest, await exchange.body())
    answering = await _find(holder, asked, opt_out=opts_out(exchange))
    async with let_in(exchange, holder.caller(answering.collection_ids)) as admission:
        give = _stream if asked.stream else _whole
        async with aclosing(answering.events(admission)) as events:
            await give(exchange, asked, answering, events, f"chatcmpl-{admission.id.hex}")


async def _find(holder: KeyHolder, asked: ChatRequest, *, opt_out: bool) -> Answering:
    provider = provider_of(asked.model)
    if provider is None:
        offer = await load()
        return ByModel(
            offer, find_model(holder, offer, asked.model, "chat"), asked, opt_out=opt_out
        )
    offered = await provider.find(holder.key, asked.model)
    if offered is None or not holder.may_use(asked.model, *offered.names):
        raise model_not_found(asked.model)
    refuse_unsupported(asked)
    return ByProvider(provider, holder.key, Asked(offered, turns_of(asked.messages), anew=opt_out))


async def _stream(
    exchange: Exchange, asked: ChatRequest, answering: Answering, events: Events, answer_id: str
) -> None:
    """Chunks as they come. An error before the first is a status, one after it an event."""
    options = asked.stream_options
    chunks = Chunks(answer_id, asked.model, with_usage=bool(options and options.include_usage))
    async with EventStream(exchange) as stream:
        try:
            await _write(stream, exchange, answering, events, chunks)
        except ClientGone:
            raise
        except Exception as exc:
            if not exchange.started or exchange.finished:
                raise
            await stream.write(event(told(exc).body()) + DONE)
            await stream.end()


async def _write(
    stream: EventStream, exchange: Exchange, answering: Answering, events: Events, chunks: Chunks
) -> None:
    before, attached = chunks.opening(), Attached()
    async for each in events:
        data = b""
        match each:
            case TextDelta():
                data = chunks.text(each)
            case ReasoningDelta():
                data = chunks.reasoning(each)
            case ToolCallDelta():
                data = chunks.calls(each)
            case Attached():
                attached = each
            case Finished():
                # What is left is to book it: a client that leaves now has its answer.
                exchange.finished = True
                await stream.write(before + chunks.closing(each, attached.fields))
                await stream.end()
                continue
        if data:
            if before:
                _tell_cache(exchange, answering)
            await stream.write(before + data)
            before = b""


def _tell_cache(exchange: Exchange, answering: Answering) -> None:
    """What is known before the first text; the cost comes later than headers can."""
    told = answering.headers()
    exchange.reply_headers.update({k: v for k, v in told.items() if k == "x-ragsite-cache"})


async def _whole(
    exchange: Exchange, asked: ChatRequest, answering: Answering, events: Events, answer_id: str
) -> None:
    """The same as one reply, with what it cost."""
    whole, finished = Whole(answer_id, asked.model), None
    async for each in events:
        match each:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                whole.add(each)
            case Attached():
                whole.attached = each.fields
            case Finished():
                finished = each
    if finished is None:
        raise Interrupted("The answer ended before it was complete. Try again.")
    await exchange.reply_json(whole.reply(finished), answering.headers())
