"""Embedding and reranking through the gateway: at TEI, at OpenAI-compatible servers, here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from pytest_django import Settings
from redis import Redis

from apps.gateway.calling import CallReport, attempts, embed, rerank
from apps.gateway.errors import BadRequest, StoreDown
from apps.gateway.redis import PREFIX
from apps.gateway.service import count_tokens
from apps.gateway.types import Model, ModelKind, Route, Upstream, UpstreamKind
from apps.inference import errors, registry
from apps.inference.generators.tokens import estimate_tokens
from tests import parts
from tests.contract.loopback import Exchange, LoopbackServer
from tests.contract.tei import DIMENSIONS, TeiDouble, Trouble
from tests.contract.tgi import TgiDouble
from tests.gateway.upstreams import NOBODY, held, model, upstream

TEXTS = ["the canteen opens at noon", "travel is refunded", "leave is granted in January"]


@pytest.fixture(autouse=True)
def empty_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(attempts, "_PAUSE", lambda state: 0.01)
    yield
    with Redis.from_url(parts.redis.url) as store:
        for key in store.scan_iter(f"{PREFIX}*"):
            store.delete(key)


def reading(kind: ModelKind, *upstreams: Upstream, name: str = "") -> Model:
    return Model(
        alias="reader",
        label="Reader",
        context_tokens=8192,
        max_tokens=0,
        passages=0,
        prompt="instruct",
        kind=kind,
        routes=tuple(Route(one, name) for one in upstreams),
    )


def at(kind: UpstreamKind, url: str, name: str = "reader", **bounds: object) -> Upstream:
    return replace(upstream(name, url, **bounds), kind=kind)


class OpenAIDouble(LoopbackServer):
    """`/v1/embeddings` and `/v1/rerank` with usage; `answer` stands in place of either."""

    answer: object = None

    def handle(self, exchange: Exchange) -> None:
        body = json.loads(exchange.body)
        if self.answer is not None:
            exchange.reply_json(200, self.answer)
        elif exchange.path == "/v1/embeddings":
            data = [
                {"index": i, "embedding": [3.0 * (i + 1), 4.0 * (i + 1)]}
                for i in range(len(body["input"]))
            ]
            usage = {"prompt_tokens": 11, "total_tokens": 11}
            exchange.reply_json(200, {"data": data[::-1], "usage": usage})
        elif exchange.path == "/v1/rerank":
            found = [{"index": i, "relevance_score": i / 10} for i in range(len(body["documents"]))]
            usage = {"total_tokens": 22}
            exchange.reply_json(200, {"results": found[::-1], "usage": usage})
        else:
            exchange.reply(404)


async def test_tei_s_vectors_come_with_an_estimate_of_what_was_read() -> None:
    with TeiDouble() as server:
        report = CallReport()
        embedded = await embed(reading("embedding", at("tei", server.url)), TEXTS, report)
    assert embedded.vectors.shape == (3, DIMENSIONS)
    assert np.allclose(np.linalg.norm(embedded.vectors, axis=1), 1, atol=1e-5)
    assert embedded.usage.estimated
    assert embedded.usage.prompt_tokens == sum(map(estimate_tokens, TEXTS))
    assert (report.upstream, report.attempts) == ("reader", 1)
    assert await held("reader") == 0


async def test_an_openai_compatible_server_s_vectors_are_put_in_order_and_to_length() -> None:
    with OpenAIDouble() as server:
        model = reading("embedding", at("openai", f"{server.url}/v1"), name="org/embedder")
        embedded = await embed(model, TEXTS, CallReport())
        [sent] = server.bodies("/v1/embeddings")
    assert np.allclose(embedded.vectors, [[0.6, 0.8]] * 3)
    assert (embedded.usage.prompt_tokens, embedded.usage.estimated) == (11, False)
    assert (sent["model"], sent["input"]) == ("org/embedder", TEXTS)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"data": []},
        {"data": [{"index": 0, "embedding": [1, 2]}] * 3},
        {"data": [{"index": i, "embedding": [1] * (i + 1)} for i in range(3)]},
        {"data": [{"index": i, "embedding": "AAAA"} for i in range(3)]},
        {"data": [{"index": i, "embedding": [1e999]} for i in range(3)]},
        {"results": "none"},
        {"results": [{"index": i, "relevance_score": float("nan")} for i in range(3)]},
    ],
    ids=lambda value: json.dumps(value)[:40],
)
@pytest.mark.parametrize("kind", ["embedding", "rerank"])
async def test_garbage_is_told_as_such(answer: object, kind: ModelKind) -> None:
    with OpenAIDouble() as server:
        server.answer = answer
        model = reading(kind, at("openai", f"{server.url}/v1"))
        embeds = kind == "embedding"
        report = CallReport()
        call = embed(model, TEXTS, report) if embeds else rerank(model, "when?", TEXTS, report)
        with pytest.raises(errors.ProtocolError):
            await call


async def test_texts_are_scored_in_the_order_given() -> None:
    with TeiDouble(kind="reranker") as server:
        scored = await rerank(
            reading("rerank", at("tei", server.url)), TEXTS[1], TEXTS, CallReport()
        )
    assert int(np.argmax(scored.scores)) == 1
    assert scored.usage.estimated
    assert scored.usage.prompt_tokens > sum(map(estimate_tokens, TEXTS))
    with OpenAIDouble() as openai:
        model = reading("rerank", at("openai", f"{openai.url}/v1"))
        scored = await rerank(model, "when?", TEXTS, CallReport())
    assert scored.scores == [0.0, 0.1, 0.2]
    assert (scored.usage.prompt_tokens, scored.usage.estimated) == (22, False)


async def test_trouble_is_met_elsewhere() -> None:
    with TeiDouble() as sick, TeiDouble() as well:
        sick.troubles.extend([Trouble(reset=True)] * 9)
        both = reading("embedding", at("tei", sick.url, "sick"), at("tei", well.url, "well"))
        for _ in range(6):
            report = CallReport()
            assert (await embed(both, TEXTS, report)).vectors.shape == (3, DIMENSIONS)
            assert report.upstream == "well" or not sick.troubles
    assert await held("sick") == await held("well") == 0


async def test_one_that_is_not_there_is_told_after_its_tries() -> None:
    report = CallReport()
    with pytest.raises(errors.Unavailable):
        await embed(reading("embedding", at("tei", NOBODY)), TEXTS, report)
    assert report.attempts == attempts.ROUNDS


async def test_a_call_that_takes_too_long_ends_at_its_deadline() -> None:
    with TeiDouble() as server:
        slow = reading("embedding", at("tei", server.url, deadline_s=0.2, silence_timeout_s=1.0))
        await embed(slow, TEXTS[:1], CallReport())
        server.troubles.append(Trouble(stall_s=0.6))
        with pytest.raises(errors.TimedOut, match=r"within 0\.2 s"):
            await embed(slow, TEXTS, CallReport())
    assert await held("reader") == 0


async def test_the_process_s_own_models_are_used_where_there_is_no_server(
    settings: Settings,
) -> None:
    with TeiDouble() as server:
        settings.TEI_URL, settings.EMBEDDER = server.url, "tei"
        registry.forget()
        here = reading("embedding", Upstream("here", "local", ""))
        assert (await embed(here, TEXTS, CallReport())).vectors.shape == (3, DIMENSIONS)
    registry.forget()


async def test_reranking_that_is_off_is_told(settings: Settings) -> None:
    settings.RERANKER = "off"
    registry.forget()
    with pytest.raises(BadRequest, match="off"):
        await rerank(reading("rerank", Upstream("here", "local", "")), "q", TEXTS, CallReport())
    registry.forget()


async def test_bounds_hold_for_texts_too() -> None:
    with TeiDouble() as server:
        one = reading("embedding", at("tei", server.url, max_concurrency=1))
        server.troubles.extend([Trouble(stall_s=0.02)] * 4)
        async with asyncio.timeout(10):
            found = await asyncio.gather(*(embed(one, TEXTS, CallReport()) for _ in range(4)))
    assert len(found) == 4


async def test_without_redis_nothing_is_read(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pytest.raises(StoreDown):
        await embed(reading("embedding", at("tei", NOBODY)), TEXTS, CallReport())


async def test_tokens_are_counted_by_the_first_upstream_that_answers() -> None:
    with TgiDouble() as server:
        both = model(upstream("gone", NOBODY), upstream("a", server.url))
        assert await count_tokens(both, "one two, three") == 4
    nobody = model(upstream("gone", NOBODY))
    assert await count_tokens(nobody, "one two") == estimate_tokens("one two")
