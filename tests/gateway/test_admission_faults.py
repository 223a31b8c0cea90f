"""Requests that are broken off, and stores that go away, at every step: nothing is overspent,
nothing stays reserved, and nobody waits for long."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection

from apps.gateway.admission import WorstCase, admitted, budgets, endings, rates
from apps.gateway.admission.rules import rules_for
from apps.gateway.admission.sweeping import sweep
from apps.gateway.errors import BudgetExceeded, RateLimited, StoreDown
from apps.gateway.models import BudgetCounter, LedgerEntry, Reservation
from apps.gateway.redis import client
from apps.gateway.tasks import sweep_task
from apps.gateway.types import Caller
from apps.tenants.aio import in_thread
from apps.tenants.models import Measure
from tests import parts
from tests.cast import Cast
from tests.gateway.outages import (  # noqa: F401 - a fixture
    impatient,
    postgres_away,
    redis_away,
    superuser,
)
from tests.gateway.spending import (
    MONEY,
    a_micro_a_token,
    booked,
    call_of,
    caller_of,
    counted,
    let_expire,
    limit,
)
from worker.celery import app as celery

pytestmark = pytest.mark.django_db(transaction=True)
WORST = WorstCase(100, 100)


@pytest.fixture
def caller(cast: Cast) -> Caller:
    a_micro_a_token()
    for measure in (Measure.REQUESTS_PER_MINUTE, Measure.TOKENS_PER_MINUTE):
        limit(cast.acme, measure, 10**6)
    limit(cast.acme, Measure.CONCURRENT_CALLS, 1000)
    limit(cast.acme, MONEY, 1000)
    # The main thread's connection is the test's own; what is tried here has others.
    connection.close()
    return caller_of(cast.acme, user_id=cast.bob.id, key_id=uuid.uuid4())


async def redis_state(caller: Caller) -> dict[bytes, Any]:
    """Everything that Redis keeps of a tenant, in a form that is the same if nothing changed."""
    keys = [key async for key in client().scan_iter(match=f"*rate:*{caller.tenant_id}*")]
    return {key: await client().dump(key) for key in keys}


def postgres_state() -> list[Any]:
    tables = (BudgetCounter, Reservation, LedgerEntry)
    return [list(table.objects.order_by("id").values()) for table in tables]


async def nothing_is_held(cast: Cast) -> None:
    assert (await in_thread(counted, cast.acme))[1] == 0
    assert (await in_thread(counted, cast.acme, "tokens"))[1] == 0
    assert not await in_thread(Reservation.objects.exists)


async def all_is_booked(cast: Cast) -> None:
    """The counters of each subject are the ledger's sums."""
    micros, tokens = await in_thread(booked, cast.acme)
    for subject in ("tenant", "member", "key"):
        assert (await in_thread(counted, cast.acme, "micros", subject))[0] == micros
        assert (await in_thread(counted, cast.acme, "tokens", subject))[0] == tokens


async def no_place_is_taken(caller: Caller) -> None:
    async for key in client().scan_iter(match=f"*concurrent_calls:{caller.tenant_id}*"):
        assert not await client().zcard(key)


async def test_a_request_refused_by_a_rate_leaves_both_stores_as_they_were(
    cast: Cast, caller: Caller
) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST):
        await in_thread(limit, cast.acme, Measure.CONCURRENT_CALLS, 1)
        before = await redis_state(caller), await in_thread(postgres_state)
        with pytest.raises(RateLimited):
            async with admitted(caller):
                pytest.fail("let in beyond its limit")
        assert (await redis_state(caller), await in_thread(postgres_state)) == before


async def test_a_request_refused_by_a_budget_leaves_both_stores_as_they_were(
    cast: Cast, caller: Caller
) -> None:
    before = await redis_state(caller), await in_thread(postgres_state)
    with pytest.raises(BudgetExceeded):
        async with admitted(caller) as admission, admission.reserved(WorstCase(1001, 100)):
            pytest.fail("let spend beyond its budget")
    assert (await redis_state(caller), await in_thread(postgres_state)) == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_two_hundred_with_random_disconnects_and_errors(
    cast: Cast, caller: Caller, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed, not a secret

    async def one(tokens: int, fails: bool) -> None:
        async with admitted(caller) as admission, admission.reserved(WORST) as budget:
            try:
                budget.in_flight = partial(call_of, tokens // 2)
                await asyncio.sleep(0.02)
                if fails:
                    raise ZeroDivisionError
            finally:
                await asyncio.shield(budget.settle(call_of(tokens)))

    asked = [
        asyncio.create_task(one(chance.randrange(1, 101), chance.random() < 0.3))
        for _ in range(200)
    ]
    for task in asked:
        if chance.random() < 0.5:
            asyncio.get_running_loop().call_later(chance.random(), task.cancel)
    await asyncio.gather(*asked, return_exceptions=True)
    kinds = {type(task.exception()) for task in asked if not task.cancelled()}
    assert kinds <= {type(None), BudgetExceeded, ZeroDivisionError}
    used, _ = await in_thread(counted, cast.acme)
    assert 0 < used <= 1000
    await nothing_is_held(cast)
    await all_is_booked(cast)
    await no_place_is_taken(caller)


async def test_two_sweepers_at_once_book_once(cast: Cast, caller: Caller) -> None:
    holds = [await in_thread(budgets.reserve, caller, uuid.uuid4(), WORST, ()) for _ in range(5)]
    for hold in holds:
        await in_thread(budgets.renew, hold, call_of(30))
    await in_thread(let_expire)
    swept = await asyncio.gather(*(in_thread(sweep) for _ in range(4)))
    assert sum(swept) == 5
    assert await in_thread(counted, cast.acme) == (150, 0)
    assert await in_thread(booked, cast.acme) == (150, 150)


async def test_sweeping_and_settling_at_once_book_each_token_once(
    cast: Cast, caller: Caller
) -> None:
    for _ in range(10):
        hold = await in_thread(budgets.reserve, caller, uuid.uuid4(), WORST, ())
        await in_thread(budgets.renew, hold, call_of(30))
        await in_thread(let_expire)
        settlement = budgets.Settlement(call_of(50))
        await asyncio.gather(in_thread(sweep), in_thread(budgets.settle, hold, settlement))
        await in_thread(budgets.release, hold.id)
    assert await in_thread(counted, cast.acme) == (500, 0)
    assert await in_thread(booked, cast.acme) == (500, 500)


async def test_the_first_requests_of_a_tenant_do_not_get_past_its_budget(
    cast: Cast, caller: Caller
) -> None:
    async def one() -> bool:
        try:
            rules = await rules_for(caller)
            await in_thread(budgets.reserve, caller, uuid.uuid4(), WORST, rules)
        except BudgetExceeded:
            return False
        return True

    # No counter has a row yet: whoever comes second must see what the first has added.
    assert sum(await asyncio.gather(*(one() for _ in range(40)))) == 10
    assert await in_thread(counted, cast.acme) == (0, 1000)


async def test_redis_away_at_the_door(cast: Cast, caller: Caller) -> None:
    async with redis_away():
        with pytest.raises(StoreDown):
            async with admitted(caller):
                pytest.fail("let in without its limits known")
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        await budget.settle(call_of(10))
    await nothing_is_held(cast)


async def test_redis_away_at_the_tokens(cast: Cast, caller: Caller) -> None:
    with pytest.raises(StoreDown):
        async with admitted(caller) as admission, redis_away(), admission.reserved(WORST):
            pytest.fail("let spend without its limits known")
    await nothing_is_held(cast)
    await no_place_is_taken(caller)


async def test_redis_away_at_the_end_is_no_fault_of_the_answer(cast: Cast, caller: Caller) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        pool = redis_away()
        await pool.__aenter__()
        assert await budget.settle(call_of(10)) == 10
    await pool.__aexit__(None, None, None)
    await nothing_is_held(cast)
    await all_is_booked(cast)
    # The place comes free with its lease, which nobody renews.
    key = f"ragsite:gw:rate:concurrent_calls:{cast.acme.id}:tenant:"
    ((_, ends_us),) = await client().zrange(key, 0, -1, withscores=True)
    assert ends_us / 1_000_000 <= (await client().time())[0] + rates.LEASE_S + 1


@pytest.mark.usefixtures("impatient")
async def test_postgres_away_at_the_reservation(cast: Cast, caller: Caller) -> None:
    with pytest.raises(StoreDown):
        async with admitted(caller) as admission, postgres_away(), admission.reserved(WORST):
            pytest.fail("let spend without its budget known")
    await no_place_is_taken(caller)
    await nothing_is_held(cast)


@pytest.mark.usefixtures("impatient")
async def test_postgres_away_before_the_limits_were_read(cast: Cast, caller: Caller) -> None:
    async with postgres_away():
        with pytest.raises(StoreDown):
            async with admitted(caller):
                pytest.fail("let in without its limits known")


@contextmanager
def locked(statement: str) -> Iterator[None]:
    """Another session has taken a lock and does not give it back."""
    with superuser(parts.DATABASE) as session, session.transaction():
        session.execute(statement)  # type: ignore[call-overload]
        yield


@pytest.mark.usefixtures("impatient")
async def test_a_database_that_does_not_answer_is_not_waited_for_at_the_door(
    cast: Cast, caller: Caller
) -> None:
    with locked("LOCK TABLE tenants_limit"), pytest.raises(StoreDown):
        async with admitted(caller):
            pytest.fail("let in without its limits known")


async def test_a_counter_that_somebody_holds_is_not_waited_for(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "LOCK_TIMEOUT_MS", 50)
    async with admitted(caller) as admission:
        async with admission.reserved(WORST):
            pass
        with locked("SELECT FROM gateway_budgetcounter FOR UPDATE"), pytest.raises(StoreDown):
            async with admission.reserved(WORST):
                pytest.fail("let spend without its budget known")
    await nothing_is_held(cast)


async def test_a_call_that_is_settled_after_the_release_is_booked(
    cast: Cast, caller: Caller
) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        pass
    assert await budget.settle(call_of(30)) == 30
    await nothing_is_held(cast)
    await all_is_booked(cast)


@pytest.mark.usefixtures("impatient")
async def test_postgres_away_at_the_settlement(cast: Cast, caller: Caller) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget, postgres_away():
        assert await budget.settle(call_of(60)) == 0  # not known yet
        assert budget.spent_tokens == 60
    # It is back: what was owed is booked, then the rest released.
    await settled_at_last(cast)
    assert await in_thread(counted, cast.acme) == (60, 0)
    await all_is_booked(cast)


@pytest.mark.parametrize("swept", [False, True])
async def test_attempts_at_the_same_settlement_at_once_book_once(
    cast: Cast, caller: Caller, swept: bool
) -> None:
    for _ in range(5):
        hold = await in_thread(budgets.reserve, caller, uuid.uuid4(), WORST, ())
        if swept:
            await in_thread(let_expire)
            await in_thread(sweep)
        settlement = budgets.Settlement(call_of(50))
        attempts = (in_thread(budgets.settle, hold, settlement) for _ in range(6))
        assert await asyncio.gather(*attempts) == [50] * 6
        await in_thread(budgets.release, hold.id)
    assert await in_thread(counted, cast.acme) == (250, 0)
    await all_is_booked(cast)


async def test_an_answer_that_is_lost_after_the_commit_is_asked_for_again(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, heard = budgets.settle, iter([False, False, True])

    def deaf(hold: budgets.Hold, settlement: budgets.Settlement) -> int:
        cost = settle(hold, settlement)
        if not next(heard):
            let_expire()
            sweep()
            raise StoreDown("The connection was lost with the answer.")
        return cost

    monkeypatch.setattr(budgets, "settle", deaf)
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        await budget.renew()
        assert await budget.settle(call_of(60)) == 60
        assert budget.spent_micros == 60
    assert await in_thread(counted, cast.acme) == (60, 0)
    await all_is_booked(cast)


async def test_a_connection_that_breaks_while_a_call_is_settled_books_it_once(
    cast: Cast, caller: Caller
) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        with locked("SELECT FROM gateway_budgetcounter FOR UPDATE"):
            settling = asyncio.create_task(budget.settle(call_of(60)))
            await in_thread(_break_what_waits)
        assert await settling == 60
    assert await in_thread(counted, cast.acme) == (60, 0)
    await all_is_booked(cast)


def _break_what_waits() -> None:
    """End the session that waits for a lock, once there is one."""
    with superuser() as connection:
        broken = None
        while broken is None:
            broken = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND wait_event_type = 'Lock'",
                [parts.DATABASE],
            ).fetchone()


@pytest.mark.usefixtures("impatient")
async def test_postgres_away_at_the_release(cast: Cast, caller: Caller) -> None:
    async with admitted(caller) as admission:
        away = postgres_away()
        async with admission.reserved(WORST) as budget:
            await budget.settle(call_of(60))
            await away.__aenter__()
        await away.__aexit__(None, None, None)
    await in_thread(let_expire)
    await in_thread(sweep)
    await nothing_is_held(cast)
    await all_is_booked(cast)


@pytest.mark.usefixtures("impatient")
async def test_a_reservation_that_came_too_late_is_taken_back(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, may_go_on = budgets.reserve, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(*args: Any) -> budgets.Hold:
        asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result()
        return reserve(*args)

    monkeypatch.setattr(budgets, "reserve", slow)
    with pytest.raises(StoreDown):
        async with admitted(caller) as admission, admission.reserved(WORST):
            pytest.fail("let spend without a reservation")
    may_go_on.set()
    await settled_at_last(cast)


async def test_a_request_cancelled_while_it_reserves_holds_nothing(
    cast: Cast, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, asked = budgets.reserve, asyncio.Event()
    loop = asyncio.get_running_loop()

    def noticed(*args: Any) -> budgets.Hold:
        loop.call_soon_threadsafe(asked.set)
        return reserve(*args)

    async def request() -> None:
        async with admitted(caller) as admission, admission.reserved(WORST):
            await asyncio.sleep(60)

    monkeypatch.setattr(budgets, "reserve", noticed)
    task = asyncio.create_task(request())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await nothing_is_held(cast)
    await no_place_is_taken(caller)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
async def test_a_request_cancelled_at_whatever_step_holds_nothing(
    cast: Cast, caller: Caller, times: int
) -> None:
    """So many turns of the event loop after its begin, once, or again at the next turn."""

    async def request() -> None:
        async with admitted(caller) as admission, admission.reserved(WORST) as budget:
            try:
                await asyncio.sleep(0)
                budget.in_flight = partial(call_of, 10)
            finally:
                await asyncio.shield(budget.settle(call_of(1)))

    ended = 0
    for turns in range(0, 120, 2):
        task = asyncio.create_task(request())
        for _ in range(turns):
            # The database's threads need their time: a turn alone takes microseconds.
            await asyncio.sleep(0 if turns % 4 else 0.0002)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(task, return_exceptions=True)
        ended += not task.cancelled()
        await settled_at_last(cast)
        await no_place_is_taken(caller)
    await all_is_booked(cast)
    assert ended < 60  # some were cancelled in time


async def test_a_redis_that_loses_its_data_in_between_is_no_fault_of_the_answer(
    cast: Cast, caller: Caller
) -> None:
    async with admitted(caller) as admission, admission.reserved(WORST) as budget:
        keys = [key async for key in client().scan_iter(match=f"*{cast.acme.id}*")]
        await client().delete(*keys)
        await budget.settle(call_of(10))
    assert await redis_state(caller) == {}
    async with admitted(caller) as admission:
        assert admission.headers["x-ratelimit-limit-tokens"] == "1000000"
    await nothing_is_held(cast)


def test_the_clock_sends_the_sweeper(cast: Cast, caller: Caller) -> None:
    assert "gateway.sweep" in celery.conf.beat_schedule
    hold = budgets.reserve(caller, uuid.uuid4(), WORST, ())
    budgets.renew(hold, call_of(30))
    let_expire()
    sweep_task()
    assert counted(cast.acme) == (30, 0)


async def settled_at_last(cast: Cast) -> None:
    """The steps that nobody waits for any longer have ended."""
    await asyncio.gather(*endings._running)
    await nothing_is_held(cast)
