"""Requests that are let in, and what stays of them however they end."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from apps.gateway.admission import Admission, WorstCase, admitted, rules
from apps.gateway.admission import admission as admission_module
from apps.gateway.errors import BudgetExceeded, RateLimited
from apps.gateway.models import Reservation
from apps.gateway.types import CacheNote, CacheResult, Caller
from apps.tenants.aio import in_thread
from apps.tenants.limits import limits_for
from apps.tenants.models import Measure, Subject
from tests.cast import Cast
from tests.gateway.spending import (
    MONEY,
    a_micro_a_token,
    booked,
    call_of,
    caller_of,
    counted,
    limit,
)

pytestmark = pytest.mark.django_db(transaction=True)
WORST = WorstCase(100, 100)


@pytest.fixture
def caller(cast: Cast) -> Caller:
    a_micro_a_token()
    return caller_of(cast.acme, user_id=cast.bob.id)


async def answer(caller: Caller, tokens: int = 100) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        await asyncio.sleep(0.01)
        await budget.settle(call_of(tokens))


async def test_an_answer_is_reserved_settled_and_released(cast: Cast, caller: Caller) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        assert await in_thread(counted, cast.acme) == (0, 100)
        assert await budget.settle(call_of(40)) == 40
        assert (budget.spent_micros, budget.spent_tokens) == (40, 40)
    assert await in_thread(counted, cast.acme) == (40, 0)
    assert not await in_thread(Reservation.objects.exists)


async def test_a_change_of_a_limit_holds_for_the_next_request(cast: Cast, caller: Caller) -> None:
    await answer(caller)
    await in_thread(limit, cast.acme, MONEY, 150)
    with pytest.raises(BudgetExceeded):
        await answer(caller)
    await in_thread(limit, cast.acme, MONEY, 200)
    await answer(caller)


async def test_two_hundred_at_once_against_a_budget_that_covers_ten(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(limit, cast.acme, MONEY, 1000)
    # The last of the requests to have entered or been refused opens the gate for those within.
    gate, to_come = asyncio.Event(), 200

    def come() -> None:
        nonlocal to_come
        to_come -= 1
        if to_come == 0:
            gate.set()

    async def one() -> str:
        try:
            async with admitted(caller) as admission, admission.reserved(WORST) as budget:
                come()
                await gate.wait()
                await budget.settle(call_of(100))
        except BudgetExceeded:
            come()
            return "refused"
        return "passed"

    ended = await asyncio.gather(*(one() for _ in range(200)))
    assert (ended.count("passed"), ended.count("refused")) == (10, 190)
    assert await in_thread(counted, cast.acme) == (1000, 0)
    assert await in_thread(booked, cast.acme) == (1000, 1000)


async def test_of_many_at_once_one_reads_the_limits(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def reading(*args: Any, **options: Any) -> Any:
        read.append(options)
        return limits_for(*args, **options)

    monkeypatch.setattr(rules, "limits_for", reading)

    async def one() -> None:
        async with admitted(caller):
            pass

    await asyncio.gather(*(one() for _ in range(50)))
    assert len(read) == 1


async def test_a_cancelled_reading_of_limits_ends_who_waited(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, entered = asyncio.Event(), []

    def reading(*args: Any, **options: Any) -> Any:
        loop.call_soon_threadsafe(going.set)
        return limits_for(*args, **options)

    async def one() -> None:
        async with admitted(caller):
            entered.append(True)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(rules, "limits_for", reading)
    waiting = asyncio.create_task(one())
    await going.wait()
    # In the moment in which the limits have come.
    (task,) = rules._readings.get().values()
    task.add_done_callback(lambda _: waiting.cancel())
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not entered


async def test_a_reservation_that_outlives_its_request_is_still_renewed(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is made for several goes on when the one in whose name it is made leaves."""
    monkeypatch.setattr(admission_module, "_RENEW_EVERY_S", 0.02)
    go_on, reserved = asyncio.Event(), asyncio.Event()

    async def make(admission: Admission) -> None:
        async with admission.reserved(WORST) as budget:
            reserved.set()
            await go_on.wait()
            await budget.settle(call_of(10))

    async with admitted(caller) as admission:
        making = asyncio.create_task(make(admission))
        await reserved.wait()
    first = await in_thread(lambda: Reservation.objects.get().expires_at)
    async with asyncio.timeout(5):
        # The renewer is asked, not told.
        while await in_thread(lambda: Reservation.objects.get().expires_at) <= first:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    go_on.set()
    await making
    assert admission._renewals is not None
    await asyncio.wait({admission._renewals}, timeout=5)
    assert admission._renewals.done()
    assert not await in_thread(Reservation.objects.exists)


async def test_places_are_taken_and_come_free(cast: Cast, caller: Caller) -> None:
    await in_thread(limit, cast.acme, Measure.CONCURRENT_CALLS, 2, Subject.MEMBER)
    async with admitted(caller):
        async with admitted(caller):
            with pytest.raises(RateLimited) as refused:
                async with admitted(caller):
                    pass
            assert refused.value.limit == "your answers at the same time"
        async with admitted(caller):
            pass


async def test_a_request_refused_by_its_budget_gives_back_what_it_took(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(limit, cast.acme, Measure.REQUESTS_PER_MINUTE, 1)
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_MINUTE, 100)
    await in_thread(limit, cast.acme, MONEY, 99)
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            await answer(caller)
    await in_thread(limit, cast.acme, MONEY, 100)
    await answer(caller)


async def test_unused_tokens_of_the_minute_are_given_back(cast: Cast, caller: Caller) -> None:
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_MINUTE, 150)
    await answer(caller, tokens=40)
    await answer(caller, tokens=100)
    with pytest.raises(RateLimited) as refused:
        await answer(caller)
    assert refused.value.limit == "your organisation's tokens a minute"
    assert refused.value.headers["x-ratelimit-limit-tokens"] == "150"


async def test_tokens_that_one_reservation_left_are_there_for_the_next(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_MINUTE, 150)
    async with admitted(caller) as admission:
        for _ in range(3):
            async with admission.reserved(WORST) as budget:
                await budget.settle(call_of(10))
    async with admitted(caller) as admission:
        assert int(admission.headers["x-ratelimit-remaining-tokens"]) in range(120, 130)


async def test_the_call_in_flight_is_asked_for_with_a_renewal_until_it_is_settled(
    cast: Cast, caller: Caller
) -> None:
    stands_at = iter([None, call_of(20), call_of(30)])
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        budget.in_flight = lambda: next(stands_at)
        for noted in (None, 10, 15):
            await budget.renew()
            row = await in_thread(Reservation.objects.get)
            call = row.noted.get("call")
            assert (call and call["usage"]["output_tokens"]) == noted
        await budget.settle(call_of(40))
        await budget.renew()
        row = await in_thread(Reservation.objects.get)
        assert "call" not in row.noted


async def test_more_tokens_than_a_minute_has_are_refused_for_good(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_MINUTE, 99)
    with pytest.raises(RateLimited, match="can never be let through") as refused:
        await answer(caller)
    assert not refused.value.retryable


async def test_headers_tell_what_is_left(cast: Cast, caller: Caller) -> None:
    await in_thread(limit, cast.acme, Measure.REQUESTS_PER_MINUTE, 60)
    await in_thread(limit, cast.acme, Measure.REQUESTS_PER_MINUTE, 3, Subject.MEMBER)
    await in_thread(limit, cast.acme, Measure.TOKENS_PER_MINUTE, 6000)
    async with admitted(caller) as admission:
        assert admission.headers == {
            "x-ratelimit-limit-requests": "3",
            "x-ratelimit-remaining-requests": "2",
            "x-ratelimit-reset-requests": "20s",
            "x-ratelimit-limit-tokens": "6000",
            "x-ratelimit-remaining-tokens": "6000",
            "x-ratelimit-reset-tokens": "0ms",
        }
        async with admission.reserved(WORST):
            assert admission.headers["x-ratelimit-remaining-tokens"] == "5900"
            assert admission.headers["x-ratelimit-reset-tokens"] == "1s"


async def test_a_cached_answer_takes_a_request_and_spends_nothing(
    cast: Cast, caller: Caller
) -> None:
    await in_thread(limit, cast.acme, Measure.REQUESTS_PER_MINUTE, 1)
    async with admitted(caller) as admission:
        await admission.book(call_of(10, cache=CacheNote(CacheResult.HIT)))
    assert await in_thread(counted, cast.acme) == (0, 0)
    with pytest.raises(RateLimited):
        async with admitted(caller):
            pass


async def test_the_same_request_may_come_twice(cast: Cast, caller: Caller) -> None:
    same = uuid.uuid4()
    async with (
        admitted(caller, request_id=same) as first,
        admitted(caller, request_id=same) as second,
        first.reserved(WORST),
        second.reserved(WORST),
    ):
        assert await in_thread(counted, cast.acme) == (0, 200)
    assert await in_thread(counted, cast.acme) == (0, 0)


async def test_an_error_in_the_call_releases_what_was_reserved(cast: Cast, caller: Caller) -> None:
    with pytest.raises(ZeroDivisionError):
        async with admitted(caller) as admission, admission.reserved(WORST):
            raise ZeroDivisionError
    assert await in_thread(counted, cast.acme) == (0, 0)


async def test_a_cancelled_call_is_still_settled(cast: Cast, caller: Caller) -> None:
    begun = asyncio.Event()

    async def call() -> None:
        async with admitted(caller) as admission, admission.reserved(WORST) as budget:
            try:
                begun.set()
                await asyncio.sleep(60)
            finally:
                await asyncio.shield(budget.settle(call_of(30)))

    task = asyncio.create_task(call())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await in_thread(counted, cast.acme) == (30, 0)
    assert await in_thread(booked, cast.acme) == (30, 30)
