"""A call whose upstream fails: tried elsewhere while nothing has been shown, told after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest
from redis import Redis

from apps.gateway.calling import CallReport, attempts, generate, slots
from apps.gateway.errors import NoUpstream
from apps.gateway.redis import PREFIX
from apps.inference import errors
from apps.inference.types import GenerationEvent, TextDelta
from tests import parts
from tests.contract.loopback import wait_for
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.upstreams import NOBODY, REQUEST, answer, held, model, until, upstream

PARIS = "Paris is the capital."
LONG = Behaviour(tokens=(" word",) * 1000, token_s=0.01)
GARBAGE = Behaviour(status=200, status_body=("text/event-stream", "data: <html>\n\n"))


@pytest.fixture(autouse=True)
def empty_store() -> Iterator[None]:
    yield
    with Redis.from_url(parts.redis.url) as store:
        for key in store.scan_iter(f"{PREFIX}*"):
            store.delete(key)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between rounds of tries are at random up to 0.2 s and more; here hardly any."""
    monkeypatch.setattr(attempts, "_PAUSE", lambda state: 0.01)


@pytest.fixture
def one() -> Iterator[TgiDouble]:
    with TgiDouble() as server:
        yield server


@pytest.fixture
def other() -> Iterator[TgiDouble]:
    with TgiDouble() as server:
        yield server


def generations(server: TgiDouble) -> int:
    return len(server.bodies("/v1/chat/completions"))


@pytest.mark.parametrize(
    "trouble",
    [
        Behaviour(failure="error"),
        Behaviour(failure="incomplete"),
        Behaviour(failure="close"),
        Behaviour(failure="reset"),
        Behaviour(failure="stall"),
        Behaviour(overloaded=True),
        Behaviour(status=502),
        Behaviour(status=401),
        Behaviour(status=307),
        GARBAGE,
    ],
    ids=["error", "incomplete", "close", "reset", "stall", "full", "502", "401", "307", "garbage"],
)
async def test_trouble_before_the_first_token_is_met_elsewhere(
    one: TgiDouble, other: TgiDouble, trouble: Behaviour
) -> None:
    one.default = trouble
    sick, well = upstream("sick", one.url, first_token_timeout_s=0.2), upstream("well", other.url)
    await slots.take(model(well).routes)  # so that the other is asked first
    report = CallReport()

    assert (await answer(model(sick, well), report))[0] == PARIS

    assert (report.upstream, report.attempts) == ("well", 2)
    assert generations(one) == generations(other) == 1
    assert (await held("sick"), await held("well")) == (0, 1)


async def test_an_upstream_that_is_not_there_is_met_elsewhere(other: TgiDouble) -> None:
    both = model(upstream("gone", NOBODY), upstream("well", other.url))
    for _ in range(8):
        assert (await answer(both))[0] == PARIS


async def test_one_failure_of_the_only_upstream_is_tried_again(one: TgiDouble) -> None:
    one.script(Behaviour(failure="error"), Behaviour(status=503))
    report = CallReport()
    assert (await answer(model(upstream("a", one.url)), report))[0] == PARIS
    assert report.attempts == 3


async def test_silence_of_the_only_upstream_is_not_waited_out_again(one: TgiDouble) -> None:
    one.default = Behaviour(first_s=3600)
    report = CallReport()
    with pytest.raises(errors.TimedOut):
        await answer(model(upstream("a", one.url, first_token_timeout_s=0.1)), report)
    assert report.attempts == 1


async def test_tries_end_and_the_last_error_is_told(one: TgiDouble) -> None:
    one.default = Behaviour(status=503)
    report = CallReport()
    with pytest.raises(errors.Unavailable):
        await answer(model(upstream("a", one.url)), report)
    assert report.attempts == generations(one) == attempts.ROUNDS
    assert await held("a") == 0


@pytest.mark.parametrize(
    "trouble",
    [
        Behaviour(status=503),
        Behaviour(status=401),
        Behaviour(overloaded=True),
        Behaviour(failure="reset"),
        Behaviour(failure="error"),
        Behaviour(first_s=3600),
        GARBAGE,
    ],
    ids=["503", "401", "full", "reset", "error", "silent", "garbage"],
)
async def test_an_upstream_s_address_is_not_told(one: TgiDouble, trouble: Behaviour) -> None:
    one.default = trouble
    with pytest.raises(errors.InferenceError, match=r"server gpu-1") as caught:
        await answer(model(upstream("gpu-1", one.url, first_token_timeout_s=0.1)))
    assert "127.0.0.1" not in str(caught.value)


async def test_a_request_at_fault_is_tried_once(one: TgiDouble, other: TgiDouble) -> None:
    both = model(upstream("a", one.url), upstream("b", other.url))
    wrong = replace(REQUEST, options={"top_p": 7})
    with pytest.raises(errors.Rejected):
        async with aclosing(generate(both, wrong, CallReport())) as events:
            await anext(events)
    assert generations(one) + generations(other) == 1
    # Nor does it speak against the upstream.
    assert {(await answer(both))[0] for _ in range(4)} == {PARIS}


async def test_a_wrong_key_is_tried_once_and_logged(
    one: TgiDouble, caplog: pytest.LogCaptureFixture
) -> None:
    one.api_key = "right-key"
    with pytest.raises(errors.Unauthorised):
        await answer(model(upstream("a", one.url, key="wrong-key")))
    assert generations(one) == 1
    assert "upstream a refuses its key" in caplog.text
    assert "wrong-key" not in caplog.text


async def test_overload_does_not_open_the_breaker(one: TgiDouble) -> None:
    one.default = Behaviour(overloaded=True)
    at = model(upstream("a", one.url))
    for _ in range(2):
        with pytest.raises(errors.Overloaded):
            await answer(at)
    one.default = Behaviour()
    place = await slots.take(at.routes)
    assert isinstance(place, slots.Place)
    assert not place.trial


async def test_a_server_that_asks_for_a_little_time_gets_it(one: TgiDouble) -> None:
    one.script(Behaviour(status=429, headers=(("retry-after", "1"),)))
    report, loop = CallReport(), asyncio.get_running_loop()
    began = loop.time()
    assert (await answer(model(upstream("a", one.url)), report))[0] == PARIS
    assert report.attempts == 2
    assert loop.time() - began >= 1


async def test_a_server_that_asks_for_much_time_is_not_waited_for(one: TgiDouble) -> None:
    one.script(Behaviour(status=429, headers=(("retry-after", "30"),)))
    with pytest.raises(errors.Overloaded) as caught:
        await answer(model(upstream("a", one.url)))
    assert caught.value.retry_after_s == 30
    assert generations(one) == 1


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("error", errors.Unavailable),
        ("incomplete", errors.Interrupted),
        ("close", errors.Interrupted),
        ("reset", errors.Interrupted),
        ("half_frame", errors.Interrupted),
        ("stall", errors.TimedOut),
    ],
)
async def test_after_the_first_token_the_error_goes_to_the_caller(
    one: TgiDouble, other: TgiDouble, failure: str, error: type[Exception]
) -> None:
    one.default = Behaviour(failure=failure, fail_after=2)  # type: ignore[arg-type]
    a, b = upstream("a", one.url, silence_timeout_s=0.2), upstream("b", other.url)
    await slots.take(model(b).routes)  # so that the other is asked first
    events = generate(model(a, b), REQUEST, CallReport())
    assert [await anext(events), await anext(events)] == [TextDelta("Paris"), TextDelta(" is")]

    with pytest.raises(error):
        await anext(events)

    assert (generations(one), generations(other)) == (1, 0)
    assert await held("a") == 0


async def test_a_call_ends_at_its_deadline(one: TgiDouble) -> None:
    one.default = LONG
    at = model(upstream("a", one.url, deadline_s=0.3))
    with pytest.raises(errors.TimedOut, match=r"within 0\.3 s"):
        await answer(at)
    assert await asyncio.to_thread(wait_for, lambda: one.disconnects == 1, within_s=1)
    assert generations(one) == 1
    assert await held("a") == 0


async def test_the_deadline_bounds_all_tries_together(one: TgiDouble, other: TgiDouble) -> None:
    one.default = other.default = Behaviour(first_s=3600)
    both = model(
        *(
            upstream(name, server.url, first_token_timeout_s=0.2, deadline_s=0.3)
            for name, server in (("a", one), ("b", other))
        )
    )
    report = CallReport()
    with pytest.raises(errors.TimedOut):
        await answer(both, report)
    assert report.attempts <= 2


async def test_a_slow_one_is_left_for_a_quick_one(one: TgiDouble, other: TgiDouble) -> None:
    one.default = Behaviour(first_s=3600)
    both = model(upstream("slow", one.url, first_token_timeout_s=0.1), upstream("quick", other.url))
    for _ in range(12):
        assert (await answer(both))[0] == PARIS
    # Its breaker opened: it is not asked each time.
    assert generations(one) <= slots.OPEN_AFTER + 1
    assert await asyncio.to_thread(wait_for, lambda: one.open_generations == 0, within_s=1)


async def test_with_all_down_it_is_told_without_any_address() -> None:
    both = model(upstream("a", NOBODY), upstream("b", NOBODY))
    trial = None
    for _ in range(4):
        with pytest.raises((NoUpstream, errors.Unavailable)):
            await answer(both)
    for _ in range(2):  # the only tries that are let through are taken
        trial = await slots.take(both.routes)
    assert isinstance(trial, slots.Place)
    with pytest.raises(NoUpstream) as caught:
        await answer(both)
    assert "127.0.0.1" not in str(caught.value)
    assert caught.value.retryable


@pytest.mark.parametrize("behaviour", [LONG, Behaviour(first_s=3600)], ids=["mid-stream", "before"])
async def test_a_cancelled_call_frees_upstream_and_place_within_a_second(
    one: TgiDouble, behaviour: Behaviour
) -> None:
    one.default = behaviour
    task = asyncio.create_task(answer(model(upstream("a", one.url))))
    await asyncio.to_thread(wait_for, lambda: one.open_generations == 1, within_s=5)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await asyncio.to_thread(wait_for, lambda: one.disconnects == 1, within_s=1)
    assert await until(lambda: _free("a"))


async def test_closing_the_iterator_frees_upstream_and_place_within_a_second(
    one: TgiDouble,
) -> None:
    one.default = LONG
    events = generate(model(upstream("a", one.url)), REQUEST, CallReport())
    await anext(events)
    assert await held("a") == 1
    await events.aclose()
    assert await asyncio.to_thread(wait_for, lambda: one.disconnects == 1, within_s=1)
    assert await until(lambda: _free("a"))


async def _free(name: str) -> bool:
    return await held(name) == 0


async def _first(events: AsyncIterator[GenerationEvent], shown: asyncio.Event) -> int:
    count = 0
    async for event in events:
        shown.set()
        count += isinstance(event, TextDelta)
    return count


@pytest.mark.slow
async def test_one_of_two_is_killed_under_load(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing that had not shown a token fails, and the return is noticed within 10 s."""
    behaviour = Behaviour(tokens=(" word",) * 40, first_s=0.2, token_s=0.005)
    with TgiDouble(behaviour=behaviour) as stays:
        victim = TgiDouble(behaviour=behaviour)
        victim.__enter__()
        port = int(victim.url.rsplit(":", 1)[1])
        both = model(
            upstream("victim", victim.url, first_token_timeout_s=5.0), upstream("stays", stays.url)
        )
        failed_unshown = failed_shown = done = 0
        stop = asyncio.Event()
        under_way: dict[int, tuple[CallReport, asyncio.Event]] = {}

        async def caller(number: int) -> None:
            nonlocal failed_unshown, failed_shown, done
            while not stop.is_set():
                report, shown = under_way[number] = CallReport(), asyncio.Event()
                try:
                    async with aclosing(generate(both, REQUEST, report)) as events:
                        await _first(events, shown)
                    done += 1
                except (errors.InferenceError, NoUpstream):
                    failed_shown += shown.is_set()
                    failed_unshown += not shown.is_set()

        def several_are_shown_by_the_victim() -> bool:
            calls = under_way.values()
            return sum(r.upstream == "victim" and shown.is_set() for r, shown in calls) >= 5

        callers = [asyncio.create_task(caller(number)) for number in range(50)]
        loop = asyncio.get_running_loop()
        await asyncio.sleep(1.0)
        # All may be waiting for a first token at once: killed then, nothing would be cut off.
        assert await until(several_are_shown_by_the_victim)
        victim.kill()
        await asyncio.sleep(4.0)
        with TgiDouble(behaviour=behaviour, port=port) as back:
            returned = loop.time()
            noticed = await until(lambda: generations(back) > 0, within_s=10)
            after = loop.time() - returned
            stop.set()
            await asyncio.gather(*callers)
    with capsys.disabled():
        print(  # noqa: T201 - a figure for whoever runs it
            f"\n50 callers, {done} answers; cut off after a token: {failed_shown}, before: "
            f"{failed_unshown}; return noticed after {after:.1f} s"
        )
    assert noticed
    assert failed_unshown == 0
    assert failed_shown > 0
    assert await until(lambda: _free("victim"))
    assert await held("stays") == 0
