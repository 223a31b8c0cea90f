"""One call for all who ask the same at once, within a process and between processes."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest
from pytest_django import Settings

from apps.gateway import redis as gateway_redis
from apps.gateway.caching import CacheUse, flights, leases, serving, through_cache
from apps.gateway.errors import BudgetExceeded, GatewayError, NoUpstream
from apps.tenants.models import Tenant
from tests.contract.tgi import Behaviour, TgiDouble
from tests.gateway.answers import (
    ANSWER,
    QUESTION,
    Asked,
    Upstream,
    Words,
    ask,
    asked,
    caller_of,
    until,
)
from tests.gateway.crowd import all_ask

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def acme() -> Tenant:
    serving._epochs.clear()
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture
def upstream() -> Upstream:
    return Upstream(gate=asyncio.Event())


@pytest.fixture(autouse=True)
async def _no_flight_is_left() -> AsyncIterator[None]:
    yield
    await until(lambda: not flights._of_loop())


def gate_of(upstream: Upstream) -> asyncio.Event:
    assert upstream.gate is not None
    return upstream.gate


async def asking(
    tenant: Tenant, upstream: Upstream, people: int, codec: Words | None = None
) -> list[asyncio.Task[Asked]]:
    """So many people who listen to one call; it is under way and has yielded nothing."""
    tasks = [asyncio.create_task(ask(tenant, upstream, codec=codec)) for _ in range(people)]
    await until(lambda: upstream.begun >= 1 and listeners() == people)
    return tasks


def listeners() -> int:
    return sum(len(flight._askers) for flight in flights._of_loop().values())


def results(came: Sequence[Asked]) -> list[str]:
    return sorted(each.result for each in came)


class TestSharing:
    async def test_64_at_once_are_one_call(self, acme: Tenant, upstream: Upstream) -> None:
        tasks = await asking(acme, upstream, 64)
        gate_of(upstream).set()
        came = await asyncio.gather(*tasks)
        assert upstream.begun == 1
        assert [each.words for each in came] == [list(ANSWER)] * 64
        assert results(came) == ["miss"] + ["shared"] * 63

    async def test_who_shares_saves_what_it_cost_and_no_time_that_was_waited(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        tasks = await asking(acme, upstream, 3, Words(500, 0.001))
        gate_of(upstream).set()
        came = await asyncio.gather(*tasks)
        shared = [each.note for each in came if each.result == "shared"]
        assert [(note.saved_micros, note.saved_ms) for note in shared] == [(500, 0.0)] * 2

    async def test_who_comes_late_gets_what_has_come_and_then_the_rest(self, acme: Tenant) -> None:
        upstream, first = Upstream(gate=asyncio.Event(), gate_from=2), CacheUse()
        events = through_cache(caller_of(acme), QUESTION, upstream(), Words(), first)
        async with aclosing(events):
            begun = [await anext(events), await anext(events)]
            late = asyncio.create_task(ask(acme, upstream))
            await until(lambda: listeners() == 2)
            gate_of(upstream).set()
            rest = [word async for word in events]
        assert begun + rest == (await late).words == list(ANSWER)
        assert upstream.begun == 1

    async def test_words_are_passed_on_as_they_come(self, acme: Tenant) -> None:
        """Each is read before the next is let through."""
        upstream = Upstream(("one ", "two ", "three."), gate=asyncio.Event())
        events = through_cache(caller_of(acme), QUESTION, upstream(), Words(), CacheUse())
        async with aclosing(events):
            for word in upstream.words:
                gate_of(upstream).set()
                assert await anext(events) == word
                gate_of(upstream).clear()

    async def test_answers_that_are_not_kept_are_shared_all_the_same(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        upstream.words = ("cut off",)
        tasks = await asking(acme, upstream, 8)
        gate_of(upstream).set()
        came = await asyncio.gather(*tasks)
        assert (upstream.begun, results(came)) == (1, ["miss"] + ["shared"] * 7)
        assert {each.note.saved_micros for each in came} == {0}


class TestLeaving:
    async def test_the_first_may_leave_and_the_others_get_their_answer(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        first, *others = await asking(acme, upstream, 3)
        first.cancel()
        await until(lambda: listeners() == 2)
        gate_of(upstream).set()
        came = await asyncio.gather(*others)
        assert [each.words for each in came] == [list(ANSWER)] * 2
        assert (upstream.begun, upstream.cut_off) == (1, 0)

    async def test_the_last_to_leave_closes_the_upstream_before_it_is_gone(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        for task in await asking(acme, upstream, 3):
            assert upstream.running == 1
            task.cancel()
            await asyncio.wait({task})
        assert (upstream.running, upstream.cut_off) == (0, 1)

    async def test_who_stops_reading_closes_it_too(self, acme: Tenant) -> None:
        upstream = Upstream(["word "] * 5000)
        await ask(acme, upstream, stop_after=2)
        assert (upstream.running, upstream.cut_off) == (0, 1)

    async def test_an_answer_that_is_dropped_and_never_closed_is_ended(self, acme: Tenant) -> None:
        upstream = Upstream(["word "] * 5000)
        events = through_cache(caller_of(acme), QUESTION, upstream(), Words(), CacheUse())
        await anext(events)
        del events
        gc.collect()
        await until(lambda: upstream.cut_off == 1)

    async def test_after_all_have_left_the_next_is_a_new_call(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        (task,) = await asking(acme, upstream, 1)
        task.cancel()
        await asyncio.wait({task})
        gate_of(upstream).set()
        came = await ask(acme, upstream)
        assert (came.words, came.result, upstream.begun) == (list(ANSWER), "miss", 2)

    async def test_who_leaves_at_the_last_word_leaves_the_answer_behind(self, acme: Tenant) -> None:
        upstream = Upstream()
        await ask(acme, upstream, stop_after=len(ANSWER))
        await until(lambda: not flights._of_loop())
        assert (await ask(acme, upstream)).result in {"hit", "miss"}
        assert upstream.running == 0


class TestErrors:
    async def test_a_spent_budget_refuses_its_owner_and_nobody_else(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        upstream.failure = BudgetExceeded("spent", limit="yours", retry_after_s=60)
        poor = await asking(acme, upstream, 5)
        rich = Upstream()
        tasks = [asyncio.create_task(ask(acme, rich)) for _ in range(5)]
        await until(lambda: listeners() == 10)
        gate_of(upstream).set()
        assert [(await task).words for task in tasks] == [list(ANSWER)] * 5
        came = [await task for task in poor]
        refused = [each for each in came if each.error is not None]
        # By their own budget; the others have got the answer before it was their turn.
        assert 1 <= len(refused) == upstream.begun
        assert {str(each.error) for each in refused} == {"spent"}
        assert all(each.words == list(ANSWER) for each in came if each.error is None)
        assert rich.begun == 1

    async def test_a_model_server_that_is_down_is_tried_by_all_and_not_one_after_the_other(
        self, acme: Tenant
    ) -> None:
        down = Upstream(failure=NoUpstream("down"))
        came = await asyncio.gather(*(ask(acme, down) for _ in range(16)))
        assert [str(each.error) for each in came] == ["down"] * 16
        assert down.begun == 16
        assert {each.result for each in came} == {"miss"}

    async def test_an_error_after_the_first_word_is_everybodys(
        self, acme: Tenant, upstream: Upstream
    ) -> None:
        upstream.failure, upstream.fail_after = NoUpstream("broke off"), 2
        tasks = await asking(acme, upstream, 4)
        gate_of(upstream).set()
        came = await asyncio.gather(*tasks)
        assert [each.words for each in came] == [list(ANSWER[:2])] * 4
        assert {str(each.error) for each in came} == {"broke off"}
        assert upstream.begun == 1

    async def test_who_failed_may_ask_again(self, acme: Tenant) -> None:
        upstream = Upstream(failure=NoUpstream("down"))
        await ask(acme, upstream)
        upstream.failure = None
        assert (await ask(acme, upstream)).words == list(ANSWER)


class TestBounds:
    async def test_a_listener_that_never_reads_holds_nobody_up(self, acme: Tenant) -> None:
        upstream = Upstream([*["word "] * 3000, "end."])
        sleeper = through_cache(caller_of(acme), QUESTION, upstream(), Words(), CacheUse())
        async with aclosing(sleeper):
            await anext(sleeper)
            came = await ask(acme, upstream)
        assert (len(came.words), came.result) == (3001, "shared")

    async def test_nobody_reading_stops_the_call(self, acme: Tenant) -> None:
        upstream = Upstream(["word "] * 100_000)
        sleeper = through_cache(caller_of(acme), QUESTION, upstream(), Words(), CacheUse())
        async with aclosing(sleeper):
            await anext(sleeper)
            (flight,) = flights._of_loop().values()
            await until(lambda: len(flight._events) >= flights.AHEAD_EVENTS)
            await asyncio.sleep(0.01)
            assert len(flight._events) == flights.AHEAD_EVENTS + 1

    async def test_of_an_endless_answer_only_so_much_is_kept(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flights, "KEPT_EVENTS", 100)
        upstream = Upstream(["word "] * 5000)
        sleeper = through_cache(caller_of(acme), QUESTION, upstream(), Words(), CacheUse())
        async with aclosing(sleeper):
            await anext(sleeper)
            (flight,) = flights._of_loop().values()
            came = await ask(acme, upstream)  # reads along
            assert len(came.words) == 5000
            assert len(flight._events) <= 100
            with pytest.raises(GatewayError, match="too slowly"):
                await anext(sleeper)
        assert (await ask(acme, upstream, stop_after=1)).result == "miss"

    async def test_a_thousand_questions_at_once(
        self, acme: Tenant, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Above the bound everybody makes their own; all are answered."""
        monkeypatch.setattr(flights, "FLIGHTS_MAX", 100)
        upstream = Upstream()
        questions = [asked(f"Question {number}?") for number in range(1000)]
        came = await asyncio.gather(*(ask(acme, upstream, each) for each in questions))
        assert all(each.words == list(ANSWER) for each in came)
        assert upstream.begun == 1000


class TestRedis:
    async def test_without_it_the_process_shares_and_everybody_is_answered(
        self, acme: Tenant, settings: Settings
    ) -> None:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        upstream = Upstream(gate=asyncio.Event())
        tasks = await asking(acme, upstream, 8)
        gate_of(upstream).set()
        came = await asyncio.gather(*tasks)
        assert all(each.words == list(ANSWER) for each in came)
        assert upstream.begun == 1

    async def test_the_lease_is_gone_when_the_answer_is(self, acme: Tenant) -> None:
        upstream = Upstream(("cut off",))
        await ask(acme, upstream)
        keys = await gateway_redis.client().keys(f"{gateway_redis.PREFIX}flight:*")
        assert not [key for key in keys if await gateway_redis.client().get(key) != b"stored"]


class TestLeases:
    KEY = b"\1" * 32

    @pytest.fixture(autouse=True)
    async def _free(self) -> AsyncIterator[None]:
        name = f"{gateway_redis.PREFIX}flight:{self.KEY.hex()}"
        await gateway_redis.client().delete(name)
        yield
        await gateway_redis.client().delete(name)

    async def test_one_has_it_untilit_is_released(self) -> None:
        ours, theirs = leases.Lease(self.KEY), leases.Lease(self.KEY)
        assert [await ours.take(), await theirs.take()] == ["ours", "busy"]
        await ours.release(stored=False)
        assert await theirs.take() == "ours"
        await theirs.release(stored=False)

    async def test_others_learn_that_an_answer_was_stored_and_may_find_it_gone(self) -> None:
        ours, theirs, third = (leases.Lease(self.KEY) for _ in range(3))
        await ours.take()
        await ours.release(stored=True)
        assert await theirs.take() == "stored"
        assert await theirs.take(stored_is_gone=True) == "ours"
        assert await third.take(stored_is_gone=True) == "busy"
        await theirs.release(stored=False)

    async def test_it_is_renewed_while_its_process_works(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(leases, "LEASE_S", 0.2)
        monkeypatch.setattr(leases, "RENEW_S", 0.02)
        ours, theirs = leases.Lease(self.KEY), leases.Lease(self.KEY)
        await ours.take()
        await asyncio.sleep(0.5)
        assert await theirs.take() == "busy"
        await ours.release(stored=False)

    async def test_that_of_a_dead_process_runs_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leases, "LEASE_S", 0.05)
        dead, ours = leases.Lease(self.KEY), leases.Lease(self.KEY)
        await dead.take()
        assert dead._renewing is not None
        dead._renewing.cancel()
        await asyncio.sleep(0.1)
        assert await ours.take() == "ours"
        await dead.release(stored=True)  # too late: it is not its own any more
        assert await dead.take() == "busy"
        await ours.release(stored=False)


class TestAnotherProcess:
    """Stood in for by a lease that another holds, and by what it stores."""

    async def test_its_answer_is_waited_for_and_shared(self, acme: Tenant) -> None:
        there, here = Upstream(gate=asyncio.Event()), Upstream(("Ours.",))
        other = asyncio.create_task(ask(acme, there))
        await until(lambda: there.begun == 1)
        hidden = flights._of_loop().copy()
        flights._of_loop().clear()  # as in a process of its own
        waiting = [asyncio.create_task(ask(acme, here)) for _ in range(4)]
        await until(lambda: listeners() == 4)
        gate_of(there).set()
        came = await asyncio.gather(*waiting)
        assert [each.words for each in came] == [list(ANSWER)] * 4
        assert (results(came), here.begun) == (["shared"] * 4, 0)
        assert {each.note.saved_micros for each in came} == {70}
        await other
        assert len(hidden) == 1

    async def test_when_it_fails_it_is_made_here(self, acme: Tenant) -> None:
        there, here = Upstream(gate=asyncio.Event(), failure=NoUpstream("down")), Upstream()
        other = asyncio.create_task(ask(acme, there))
        await until(lambda: there.begun == 1)
        flights._of_loop().clear()
        waiting = [asyncio.create_task(ask(acme, here)) for _ in range(4)]
        await until(lambda: listeners() == 4)
        gate_of(there).set()
        came = await asyncio.gather(*waiting)
        assert results(came) == ["miss"] + ["shared"] * 3
        assert here.begun == 1
        assert str((await other).error) == "down"

    async def test_whoever_waits_may_leave_before_it_comes(self, acme: Tenant) -> None:
        there, here = Upstream(gate=asyncio.Event()), Upstream()
        other = asyncio.create_task(ask(acme, there))
        await until(lambda: there.begun == 1)
        flights._of_loop().clear()
        waiting = asyncio.create_task(ask(acme, here))
        await until(lambda: listeners() == 1)
        waiting.cancel()
        await asyncio.wait({waiting})
        gate_of(there).set()
        await other
        assert here.begun == 0


SLOW = Behaviour(first_s=0.5, token_s=0.02)


async def test_64_identical_questions_are_one_call_to_tgi(acme: Tenant) -> None:
    with TgiDouble(behaviour=SLOW) as server:
        came = await all_ask(acme.id, server.url, 64)
        assert len(server.bodies("/v1/chat/completions")) == 1
    assert sorted(came) == ["miss"] + ["shared"] * 63


@pytest.mark.slow
async def test_64_identical_questions_over_two_processes_are_one_call_to_tgi(acme: Tenant) -> None:
    with TgiDouble(behaviour=SLOW) as server:
        there = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.gateway.crowd", str(acme.id), server.url, "32"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert there.stdout is not None
        assert await there.stdout.readline() == b"ready\n"
        here, (said, _) = await asyncio.gather(
            all_ask(acme.id, server.url, 32), there.communicate(b"go\n")
        )
        assert len(server.bodies("/v1/chat/completions")) == 1
    assert sorted(here + json.loads(said)) == ["miss"] + ["shared"] * 63
