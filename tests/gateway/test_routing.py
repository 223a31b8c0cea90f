"""Places at upstreams: the least loaded of the healthy, within their bounds, in line when full."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from pytest_django import Settings
from redis import Redis

from apps.gateway.calling import CallReport, generate, routing, slots
from apps.gateway.calling.routing import Busy, Down
from apps.gateway.calling.slots import Place, Went, Why
from apps.gateway.errors import NoUpstream, StoreDown
from apps.gateway.redis import PREFIX
from apps.gateway.types import Model
from tests import parts
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.upstreams import NOBODY, REQUEST, answer, held, model, until, upstream

FOREVER = float("inf")


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    yield
    with Redis.from_url(parts.redis.url) as store:
        for key in store.scan_iter(f"{PREFIX}*"):
            store.delete(key)


async def taken(at: Model, excluded: tuple[str, ...] = ()) -> Place:
    return await routing.take_place(at, excluded, FOREVER)


async def fail(at: Model, times: int = slots.OPEN_AFTER) -> None:
    for _ in range(times):
        place = await slots.take(at.routes)
        assert isinstance(place, Place)
        await slots.give_back(place, Went.BADLY, "unavailable")


async def test_the_least_loaded_is_chosen() -> None:
    both = model(upstream("a", NOBODY), upstream("b", NOBODY))
    places = [await taken(both) for _ in range(10)]
    assert Counter(p.route.upstream.name for p in places) == {"a": 5, "b": 5}
    for place in places[:]:
        if place.route.upstream.name == "a":
            await slots.give_back(place, Went.WELL)
    assert {(await taken(both)).route.upstream.name for _ in range(5)} == {"a"}


async def test_load_is_shared_by_weight() -> None:
    both = model(upstream("a", NOBODY), upstream("b", NOBODY), weights=(3, 1))
    places = [await taken(both) for _ in range(12)]
    assert Counter(p.route.upstream.name for p in places) == {"a": 9, "b": 3}


async def test_equals_are_chosen_by_chance() -> None:
    both = model(upstream("a", NOBODY), upstream("b", NOBODY))
    first = set()
    for _ in range(64):
        place = await taken(both)
        first.add(place.route.upstream.name)
        await slots.give_back(place, Went.WELL)
    assert first == {"a", "b"}


async def test_what_has_failed_this_call_is_left_out() -> None:
    both = model(upstream("a", NOBODY), upstream("b", NOBODY))
    assert {(await taken(both, ("a",))).route.upstream.name for _ in range(4)} == {"b"}


def _take_many(bound: int, calls: int) -> int:
    """In an event loop of its own, as another process has."""

    async def run() -> int:
        at = model(upstream("bounded", NOBODY, max_concurrency=bound))
        found = await asyncio.gather(*(slots.take(at.routes) for _ in range(calls)))
        return sum(isinstance(place, Place) for place in found)

    return asyncio.run(run())


async def test_a_bound_holds_over_all_loops_together() -> None:
    found = await asyncio.gather(*(asyncio.to_thread(_take_many, 7, 20) for _ in range(3)))
    assert sum(found) == 7
    assert await held("bounded") == 7


async def test_no_room_in_time_is_told_as_busy() -> None:
    at = model(upstream("a", NOBODY, max_concurrency=1, queue_timeout_s=0.1))
    await taken(at)
    with pytest.raises(Busy, match=r"busy and none had room within 0\.1 s") as caught:
        await taken(at)
    assert caught.value.retryable
    assert "127.0.0.1" not in str(caught.value)


async def test_a_line_is_served_in_order_as_places_come_free() -> None:
    at = model(upstream("a", NOBODY, max_concurrency=1))
    first = await taken(at)
    served: list[int] = []

    async def wait(number: int) -> None:
        place = await taken(at)
        served.append(number)
        await routing.return_place(place, Went.WELL)

    waiting = []
    for number in range(5):
        waiting.append(asyncio.create_task(wait(number)))
        await asyncio.sleep(0.02)  # it has found no room
    assert served == []
    await routing.return_place(first, Went.WELL)
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
    assert served == [0, 1, 2, 3, 4]


async def test_a_place_that_another_process_gives_back_is_found() -> None:
    at = model(upstream("a", NOBODY, max_concurrency=1))
    first = await taken(at)
    waiting = asyncio.create_task(taken(at))
    await asyncio.sleep(0.05)
    with Redis.from_url(parts.redis.url) as store:
        store.zrem(slots.leases_key("a"), first.lease)
    async with asyncio.timeout(2):
        assert (await waiting).route.upstream.name == "a"


async def test_one_who_gives_up_waiting_takes_no_place() -> None:
    at = model(upstream("a", NOBODY, max_concurrency=1))
    first = await taken(at)
    waiting = [asyncio.create_task(taken(at)) for _ in range(3)]
    await asyncio.sleep(0.05)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await routing.return_place(first, Went.WELL)
    assert await until(lambda: _empty("a"))


async def _empty(name: str) -> bool:
    return await held(name) == 0


async def test_a_call_cancelled_as_it_takes_its_place_keeps_none() -> None:
    at = model(upstream("a", NOBODY))
    for turns in range(12):  # however far it had come
        task = asyncio.create_task(taken(at))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            await slots.give_back(task.result(), Went.WELL)
    assert await until(lambda: _empty("a"))


async def test_the_time_in_line_is_told() -> None:
    with TgiDouble(behaviour=Behaviour(tokens=("x",), first_s=0.15)) as server:
        at = model(upstream("a", server.url, max_concurrency=1))
        reports = [CallReport(), CallReport()]
        await asyncio.gather(*(answer(at, report) for report in reports))
    fast, slow = sorted(report.queue_ms for report in reports)
    assert fast < 100 <= slow


async def test_a_dead_process_s_places_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "LEASE_S", 0.2)
    at = model(upstream("a", NOBODY, max_concurrency=1))
    await slots.take(at.routes)  # and never given back, nor renewed for 5 s
    assert await slots.take(at.routes) is Why.FULL
    async with asyncio.timeout(2):
        assert await taken(at)


async def test_a_place_lasts_as_long_as_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "LEASE_S", 0.3)
    monkeypatch.setattr(slots, "RENEW_S", 0.05)
    at = model(upstream("a", NOBODY, max_concurrency=1))
    place = await taken(at)
    await asyncio.sleep(0.6)
    assert await slots.take(at.routes) is Why.FULL
    await slots.give_back(place, Went.WELL)
    assert await held("a") == 0


async def test_a_breaker_opens_after_failures_in_a_row_only() -> None:
    at = model(upstream("a", NOBODY), upstream("b", NOBODY))
    alone = model(at.routes[0].upstream)
    await fail(alone, slots.OPEN_AFTER - 1)
    place = await slots.take(alone.routes)
    assert isinstance(place, Place)
    await slots.give_back(place, Went.WELL)  # the row is broken
    await fail(alone, slots.OPEN_AFTER - 1)
    assert {(await taken(at)).route.upstream.name for _ in range(4)} == {"a", "b"}
    await fail(alone, 1)
    assert {(await taken(at)).route.upstream.name for _ in range(4)} == {"b"}


async def test_what_tells_nothing_of_an_upstream_does_not_open_it() -> None:
    at = model(upstream("a", NOBODY))
    for _ in range(2 * slots.OPEN_AFTER):
        place = await taken(at)
        await slots.give_back(place, Went.UNKNOWN, "rejected")
    assert not (await taken(at)).trial


async def test_an_open_breaker_lets_one_trial_through_when_it_has_cooled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "COOLDOWN_S", 0.1)
    sick, well = upstream("sick", NOBODY), upstream("well", NOBODY)
    both = model(sick, well)
    await fail(model(sick))
    assert (await taken(both)).route.upstream.name == "well"
    await asyncio.sleep(0.15)
    trial = await taken(both)
    assert (trial.route.upstream.name, trial.trial) == ("sick", True)
    assert {(await taken(both)).route.upstream.name for _ in range(4)} == {"well"}

    await slots.give_back(trial, Went.WELL)

    assert "sick" in {(await taken(both)).route.upstream.name for _ in range(2)}


async def test_each_failed_trial_doubles_the_pause_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "COOLDOWN_MAX_S", 3.0)
    at = model(upstream("a", NOBODY))
    pauses = []
    with Redis.from_url(parts.redis.url) as store:
        await fail(at)
        for _ in range(4):
            pauses.append(int(store.hget(slots.breaker_key("a"), "cooldown")))  # type: ignore[arg-type]
            await fail(at, 1)
    assert pauses == [1000, 2000, 3000, 3000]


async def test_failures_of_calls_under_way_do_not_lengthen_the_pause() -> None:
    at = model(upstream("a", NOBODY))
    places = [await taken(at) for _ in range(25)]
    for place in places:
        await slots.give_back(place, Went.BADLY, "interrupted")
    with Redis.from_url(parts.redis.url) as store:
        assert store.hget(slots.breaker_key("a"), "cooldown") == b"1000"


async def test_a_trial_whose_process_died_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "_TRIAL_S", 0.1)
    at = model(upstream("a", NOBODY))
    await fail(at)
    assert (await taken(at)).trial
    with pytest.raises(Down):
        await taken(at)
    await asyncio.sleep(0.15)
    assert (await taken(at)).trial


async def test_with_all_open_the_one_that_failed_least_recently_is_tried() -> None:
    first, second = upstream("first", NOBODY), upstream("second", NOBODY)
    await fail(model(first))
    await asyncio.sleep(0.01)
    await fail(model(second))
    both = model(first, second)
    assert [(await taken(both)).route.upstream.name for _ in range(2)] == ["first", "second"]
    with pytest.raises(Down) as caught:
        await taken(both)
    assert isinstance(caught.value, NoUpstream)
    assert "127.0.0.1" not in str(caught.value)


async def test_a_model_without_upstreams_is_refused() -> None:
    with pytest.raises(Down):
        await taken(model())


async def test_without_redis_nothing_is_let_through(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with TgiDouble() as server:
        with pytest.raises(StoreDown):
            await answer(model(upstream("a", server.url)))
        assert server.bodies("/v1/chat/completions") == []


async def test_redis_gone_at_the_end_does_the_answer_no_harm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from redis.exceptions import ConnectionError as Gone

    with TgiDouble() as server:
        at = model(upstream("a", server.url))
        async with aclosing(generate(at, REQUEST, CallReport())) as events:
            await anext(events)

            async def gone(*args: object, **kwargs: object) -> None:
                raise Gone

            monkeypatch.setattr("redis.commands.core.AsyncScript.__call__", gone)
            rest = [event async for event in events]
    assert rest
    assert "the lease runs out" in caplog.text
