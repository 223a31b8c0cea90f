"""The page on which operations see how the model servers are, and what is seen of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from pytest_django import Settings
from redis import Redis

from apps.gateway.calling import catalogue, probing, slots
from apps.gateway.calling.exported import Exported, read_metrics
from apps.gateway.calling.probing import look_at_all, parse_seen, probe
from apps.gateway.calling.states import read_states
from apps.gateway.redis import PREFIX
from apps.gateway.types import Upstream
from tests import parts
from tests.cast import Cast, signed_in
from tests.contract.loopback import Exchange, LoopbackServer
from tests.contract.tei import TeiDouble
from tests.contract.tgi import MODEL_ID, TgiDouble
from tests.gateway.upstreams import NOBODY, model, upstream

PAGE = "/ops/upstreams/"
VLLM = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
"""
OLDER_VLLM = "vllm:gpu_cache_usage_perc 0.75\n"
SGLANG = "sglang:num_running_reqs 5\nsglang:num_queue_reqs 0\nsglang:token_usage 0.1\n"
LLAMACPP = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 7\n"
TGI = "tgi_queue_size 9\ntgi_batch_current_size 8\n"


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    yield
    with Redis.from_url(parts.redis.url) as store:
        for key in store.scan_iter(f"{PREFIX}*"):
            store.delete(key)


@pytest.fixture
def tgi(settings: Settings) -> Iterator[TgiDouble]:
    with TgiDouble() as server:
        settings.TGI_URL, settings.OPENAI_URL, settings.TEI_URL = server.url, "", ""
        yield server


class Provider(LoopbackServer):
    """An OpenAI-compatible server without a route for health or metrics, as providers are."""

    def handle(self, exchange: Exchange) -> None:
        if exchange.path == "/v1/models":
            exchange.reply_json(200, {"data": [{"id": f"m-{i}"} for i in range(5)]})
        else:
            exchange.reply(404)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (VLLM, Exported(2, 7, 0.5)),
        (OLDER_VLLM, Exported(None, None, 0.75)),
        (SGLANG, Exported(0, 5, 0.1)),
        (LLAMACPP, Exported(7, 1, None)),
        (TGI, Exported(9, 8, None)),
        ("te_queue_size 3\n", Exported(3, None, None)),
        ("something_else 1\n", Exported()),
        ("", Exported()),
        ("tgi_queue_size NaN\n", Exported()),
        ("tgi_queue_size -1\ntgi_batch_current_size +Inf\n", Exported()),
    ],
)
def test_figures_are_found_under_each_server_s_names(text: str, told: Exported) -> None:
    assert read_metrics(text) == told


async def test_a_look_at_tgi_tells_health_load_and_limits(tgi: TgiDouble) -> None:
    tgi.open_generations = 3
    seen = await probe(upstream("a", tgi.url))
    assert (seen.well, seen.serves) == (True, MODEL_ID)
    assert (seen.takes_at_once, seen.context_tokens) == (128, 2048)
    assert seen.load == Exported(queued=0, running=3, kv_used=None)


async def test_a_look_at_tei_tells_its_model() -> None:
    with TeiDouble(api_key="k") as server:
        seen = await probe(Upstream("reader", "tei", server.url, "k"))
    assert (seen.well, seen.serves, seen.load.queued) == (True, "double/embedder", 0)


async def test_a_provider_without_a_health_route_is_asked_for_its_models() -> None:
    with Provider() as server:
        seen = await probe(Upstream("far", "openai", f"{server.url}/v1"))
    assert (seen.well, seen.serves) == (True, "m-0, m-1, m-2 and 2 more")
    assert seen.load == Exported()


async def test_a_server_that_is_ill_or_away_is_told_by_a_code(tgi: TgiDouble) -> None:
    tgi.healthy = False
    assert (await probe(upstream("a", tgi.url))).error_code == "unavailable"
    assert (await probe(upstream("b", NOBODY))).error_code == "unavailable"


async def test_a_server_that_never_answers_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent(LoopbackServer):
        def handle(self, exchange: Exchange) -> None:
            exchange.pause(3600)

    monkeypatch.setattr(probing, "_PATIENCE_S", 0.2)
    with Silent() as server:
        assert (await probe(upstream("a", server.url))).error_code == "timed_out"


async def test_garbage_for_metrics_and_info_is_not_told() -> None:
    class Garbage(LoopbackServer):
        def handle(self, exchange: Exchange) -> None:
            exchange.reply(200, b"\xff\xfe{{{ not metrics", "text/plain")

    with Garbage() as server:
        seen = await probe(upstream("a", server.url))
    assert (seen.well, seen.serves, seen.load) == (True, None, Exported())


async def test_endless_metrics_are_not_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_METRICS_BYTES_MAX", 1000)

    class Endless(LoopbackServer):
        def handle(self, exchange: Exchange) -> None:
            body = b"tgi_queue_size 1\n" * 1000 if exchange.path == "/metrics" else b""
            exchange.reply(200, body)

    with Endless() as server:
        assert (await probe(upstream("a", server.url))).load == Exported()


async def test_what_was_seen_is_read_again(tgi: TgiDouble) -> None:
    seen = await probe(upstream("a", tgi.url))
    with Redis.from_url(parts.redis.url) as store:
        kept = store.get(probing.seen_key("a"))
        assert 0 < int(store.ttl(probing.seen_key("a"))) <= 300  # type: ignore[arg-type]
    assert parse_seen(kept) == seen  # type: ignore[arg-type]
    assert parse_seen(b"{") is None
    assert parse_seen(b'{"at": 1}') is None


async def test_a_look_that_finds_it_well_lets_the_next_call_try(tgi: TgiDouble) -> None:
    sick, well = upstream("sick", tgi.url), upstream("well", NOBODY)
    for _ in range(slots.OPEN_AFTER):
        place = await slots.take(model(sick).routes)
        assert isinstance(place, slots.Place)
        await slots.give_back(place, slots.Went.BADLY, "unavailable")
    await slots.take(model(well).routes)
    await probe(sick)
    trial = await slots.take(model(sick, well).routes)
    assert isinstance(trial, slots.Place)
    assert (trial.route.upstream.name, trial.trial) == ("sick", True)


@pytest.mark.django_db
def test_operations_see_the_state_of_each(tgi: TgiDouble, cast: Cast) -> None:
    look_at_all()
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert MODEL_ID in page
    assert "0 of 64" in page
    assert "not exported" in page  # TGI tells nothing of its key-value cache
    assert tgi.url not in page
    assert "Upstreams" in page


@pytest.mark.django_db
@pytest.mark.usefixtures("tgi")
def test_an_open_breaker_and_its_reason_are_seen(cast: Cast) -> None:
    async def break_it() -> None:
        routes = (await catalogue.load()).find("tgi").routes
        for _ in range(slots.OPEN_AFTER):
            place = await slots.take(routes)
            assert isinstance(place, slots.Place)
            await slots.give_back(place, slots.Went.BADLY, "interrupted")

    catalogue.current()
    async_to_sync(break_it)()
    page = signed_in(cast.olga).get(PAGE).content.decode()
    assert "held back for" in page
    assert "interrupted" in page
    [state] = [
        s for s in async_to_sync(read_states)(catalogue.current()) if s.upstream.name == "tgi"
    ]
    assert (state.breaker.state, state.breaker.failures) == ("open", slots.OPEN_AFTER)


@pytest.mark.django_db
def test_an_upstream_is_tried_now(tgi: TgiDouble, cast: Cast) -> None:
    response = signed_in(cast.olga).post(
        f"{PAGE}try/", {"name": "tgi"}, headers={"hx-request": "true"}
    )
    assert response.status_code == 200
    assert MODEL_ID in response.content.decode()
    assert signed_in(cast.olga).post(f"{PAGE}try/", {"name": "tgi"}).status_code == 302
    assert signed_in(cast.olga).post(f"{PAGE}try/", {"name": "nobody"}).status_code == 404
    assert signed_in(cast.olga).get(f"{PAGE}try/").status_code == 405


@pytest.mark.django_db
@pytest.mark.usefixtures("tgi")
def test_nobody_else_has_such_a_page(cast: Cast) -> None:
    for person in (cast.alice, cast.bob, cast.mallory):
        assert signed_in(person).get(PAGE).status_code == 404
        assert signed_in(person).post(f"{PAGE}try/", {"name": "tgi"}).status_code == 404
    assert Client().get(PAGE).status_code == 302


@pytest.mark.django_db
def test_without_redis_the_page_says_so(tgi: TgiDouble, cast: Cast, settings: Settings) -> None:
    browser = signed_in(cast.olga)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    for response in (browser.get(PAGE), browser.post(f"{PAGE}try/", {"name": "tgi"})):
        assert response.status_code == 200
        assert "cannot be reached" in response.content.decode()


@pytest.mark.django_db
def test_without_any_server_the_page_says_what_to_do(cast: Cast, settings: Settings) -> None:
    settings.TGI_URL = settings.OPENAI_URL = settings.TEI_URL = ""
    settings.RERANKER = "off"
    assert "Set TGI_URL or OPENAI_URL" in signed_in(cast.olga).get(PAGE).content.decode()


async def test_many_are_looked_at_side_by_side(tgi: TgiDouble) -> None:
    many = [upstream(f"u{i}", tgi.url) for i in range(20)]
    async with asyncio.timeout(10):
        await probing.probe_all([*many, Upstream("here", "local", "")])
    with Redis.from_url(parts.redis.url) as store:
        assert len(list(store.scan_iter(f"{PREFIX}seen:*"))) == 20
