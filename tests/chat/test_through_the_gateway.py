"""Questions of the chat on their way through limits, budgets, cache and ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.gateway.calling import catalogue
from apps.gateway.models import BudgetCounter, CachedResponse, LedgerEntry, Price, Reservation
from apps.tenants.aio import in_scope, in_thread
from apps.tenants.models import Limit, Measure, Subject
from tests.cast import Cast
from tests.chat.library import SUPPORTED, Library, add_document, open_library
from tests.chat.test_consumer import (
    answered,
    ask,
    connected,
    engine_is_free,
    stored,
    until,
)
from tests.contract.tgi import Behaviour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    settings.TITLES = "rule"
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(f"{word} " for word in SUPPORTED.split()))
        yield opened


async def ledger(cast: Cast, hop: str = "generate") -> list[LedgerEntry]:
    def read() -> list[LedgerEntry]:
        return list(LedgerEntry.objects.filter(tenant_id=cast.acme.id, hop=hop).order_by("id"))

    return await in_thread(read)


def calls(library: Library) -> int:
    """Generations asked for at the engine; it also counts tokens for the prompt."""
    return sum(each.path.endswith("/chat/completions") for each in library.tgi.requests)


async def limit(cast: Cast, measure: Measure, amount: int, **changes: Any) -> None:
    def write() -> None:
        Limit.objects.create(
            **{
                "tenant": cast.acme,
                "subject": Subject.TENANT,
                "measure": measure,
                "amount": amount,
                "given_by": "ops",
                **changes,
            }
        )

    await in_thread(write)


async def reserved(cast: Cast) -> int:
    def read() -> int:
        open_ones = Reservation.objects.filter(tenant_id=cast.acme.id).count()
        held = BudgetCounter.objects.filter(tenant_id=cast.acme.id, reserved__gt=0).count()
        return open_ones + held

    return await in_thread(read)


async def test_an_answer_is_booked_with_its_price(cast: Cast, library: Library) -> None:
    def price() -> None:
        Price.objects.create(
            upstream="tgi",
            valid_from=timezone.now(),
            input_micros_per_mtok=1_000_000,
            output_micros_per_mtok=2_000_000,
        )
        catalogue.forget()

    await in_thread(price)
    socket = await connected(cast.bob)
    end = (await answered(socket, ask(library)))[-1]
    (row,) = await ledger(cast)
    answer = await stored(library, end["answer"])
    assert (row.prompt_tokens, row.output_tokens) == (
        answer.prompt_tokens,
        answer.completion_tokens,
    )
    assert row.cost_micros == row.prompt_tokens + 2 * row.output_tokens
    assert (str(row.request_id), row.user_id) == (end["answer"], cast.bob.id)
    assert row.conversation_id == answer.conversation_id
    assert (row.source, row.upstream, row.outcome) == ("chat", "tgi", "complete")
    assert row.collection_ids == [library.collection.id]
    assert (row.cache, row.tokens_estimated) == ("miss", False)
    assert await reserved(cast) == 0
    await socket.disconnect()


async def test_the_same_question_is_answered_from_the_cache_word_for_word(
    cast: Cast, library: Library
) -> None:
    bob, carl = await connected(cast.bob), await connected(cast.carl)
    first = await answered(bob, ask(library))
    again = await answered(carl, ask(library))
    assert calls(library) == 1
    assert (first[-1]["cache"], again[-1]["cache"]) == ("", "hit")
    told = [frame["type"] for frame in again]
    assert told.index("answer.sources") < told.index("answer.tokens")
    one, two = [await stored(library, frames[-1]["answer"]) for frames in (first, again)]
    assert (one.text, one.support, one.kind) == (two.text, two.support, two.kind)
    assert (two.cache, first[-1]["cited"]) == ("hit", again[-1]["cited"])
    hops = {hop["hop"]: hop["status"] for hop in again[-1]["hops"]}
    assert hops == {"cache": "cached", "stream": "ok"}
    miss, hit = await ledger(cast)
    assert (miss.cache, hit.cache, hit.cost_micros, hit.upstream) == ("miss", "hit", 0, "")
    assert hit.saved_micros == miss.cost_micros
    await bob.disconnect()
    await carl.disconnect()


async def test_a_new_document_never_gets_an_old_answer(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    await answered(socket, ask(library))
    passages = ("Employees now receive 30 days of paid leave a year.",)
    await in_thread(
        add_document, cast.acme, passages, collection=library.collection, name="news.md"
    )
    end = (await answered(socket, ask(library)))[-1]
    assert end["cache"] == ""
    assert [row.cache for row in await ledger(cast)] == ["miss", "miss"]
    await socket.disconnect()


async def test_asking_again_is_not_answered_from_the_cache(cast: Cast, library: Library) -> None:
    socket = await connected(cast.bob)
    first = await answered(socket, ask(library))
    message = {"v": 2, "type": "regenerate", "id": "q2", "answer": first[-1]["answer"]}
    end = (await answered(socket, json.dumps(message)))[-1]
    assert end["cache"] == ""
    rows = await ledger(cast)
    assert [(row.cache, row.cache_reason) for row in rows] == [
        ("miss", ""),
        ("bypassed", "asked_again"),
    ]
    await socket.disconnect()


async def test_a_degraded_answer_is_not_kept(cast: Cast, library: Library) -> None:
    library.tgi.default = Behaviour(failure="close", fail_after=3)
    socket = await connected(cast.bob)
    assert (await answered(socket, ask(library)))[-1]["state"] == "interrupted"
    library.tgi.default = Behaviour(status=502)
    assert (await answered(socket, ask(library)))[-1]["kind"] == "quoted"

    def kept() -> int:
        return CachedResponse.objects.count()

    assert await in_scope(cast.acme.id, kept) == 0
    await socket.disconnect()


async def test_a_question_over_the_rate_is_refused_in_words_and_counts_nowhere(
    cast: Cast, library: Library
) -> None:
    await limit(cast, Measure.REQUESTS_PER_MINUTE, 1)
    socket = await connected(cast.bob)
    await answered(socket, ask(library))
    end = (await answered(socket, ask(library, question="And how many weeks of it?")))[-1]
    assert (end["state"], end["error"]["code"]) == ("failed", "rate_limit_exceeded")
    assert "requests" in end["error"]["message"]
    answer = await stored(library, end["answer"])
    # Also after the page is loaded again.
    assert [notice["message"] for notice in answer.notices] == [end["error"]["message"]]
    assert len(await ledger(cast)) == calls(library) == 1
    assert await reserved(cast) == 0
    await socket.disconnect()


async def test_a_question_over_the_budget_is_refused_before_any_work(
    cast: Cast, library: Library
) -> None:
    await limit(cast, Measure.TOKENS_PER_DAY, 100)
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    assert frames[-1]["error"]["code"] == "insufficient_quota"
    assert "answer.sources" not in [frame["type"] for frame in frames]
    assert calls(library) == 0
    assert await ledger(cast) == []
    assert await reserved(cast) == 0
    await socket.disconnect()


async def test_a_members_limit_binds_that_member_only(cast: Cast, library: Library) -> None:
    await limit(
        cast, Measure.TOKENS_PER_DAY, 100, subject=Subject.MEMBER, subject_id=str(cast.bob.id)
    )
    bob, carl = await connected(cast.bob), await connected(cast.carl)
    assert (await answered(bob, ask(library)))[-1]["error"]["code"] == "insufficient_quota"
    assert (await answered(carl, ask(library)))[-1]["state"] == "complete"
    await bob.disconnect()
    await carl.disconnect()


async def test_a_stopped_answer_is_booked_as_far_as_it_came(cast: Cast, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 500), token_s=0.02)
    socket = await connected(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer_id = (await until(socket, "answer.tokens"))[-1]["answer"]
    await socket.send_to(text_data=json.dumps({"v": 2, "type": "stop", "answer": answer_id}))
    await until(socket, "answer.finished")
    await socket.disconnect()
    await engine_is_free(library)
    (row,) = await ledger(cast)
    assert row.outcome == "stopped"
    assert (row.tokens_estimated, row.output_tokens > 0) == (True, True)
    assert row.output_tokens == len((await stored(library, answer_id)).text.split())
    assert await reserved(cast) == 0


async def test_identical_questions_at_once_take_one_call(cast: Cast, library: Library) -> None:
    library.tgi.default = Behaviour(
        tokens=tuple(f"{word} " for word in SUPPORTED.split()), token_s=0.05
    )
    sockets = [await connected(user) for user in (cast.alice, cast.bob, cast.carl)]
    for socket in sockets:
        await socket.send_to(text_data=ask(library))
    ends = [(await until(socket, "answer.finished"))[-1] for socket in sockets]
    assert [end["state"] for end in ends] == ["complete"] * 3
    assert calls(library) == 1
    assert sorted(row.cache for row in await ledger(cast)) == ["miss", "shared", "shared"]
    for socket in sockets:
        await socket.disconnect()


async def test_who_asked_first_may_leave_while_others_wait(cast: Cast, library: Library) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 40), token_s=0.05)
    first, second = await connected(cast.alice), await connected(cast.bob)
    await first.send_to(text_data=ask(library))
    await until(first, "answer.tokens")
    await second.send_to(text_data=ask(library))
    await until(second, "answer.tokens")
    await first.disconnect()
    end = (await until(second, "answer.finished"))[-1]
    assert (end["state"], end["cache"], library.tgi.disconnects) == ("complete", "shared", 0)
    await second.disconnect()


async def test_with_redis_away_passages_are_quoted_and_nothing_is_spent(
    cast: Cast, library: Library, settings: Settings
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    socket = await connected(cast.bob)
    frames = await answered(socket, ask(library))
    assert (frames[-1]["state"], frames[-1]["kind"]) == ("complete", "quoted")
    told = [frame["code"] for frame in frames if frame["type"] == "answer.notice"]
    assert "limits_down" in told
    assert calls(library) == 0
    await socket.disconnect()


async def test_a_limit_that_is_lifted_lets_the_next_question_in(
    cast: Cast, library: Library
) -> None:
    await limit(cast, Measure.TOKENS_PER_DAY, 100)
    socket = await connected(cast.bob)
    assert (await answered(socket, ask(library)))[-1]["state"] == "failed"

    def lift() -> None:
        from apps.gateway.admission.rules import limits_changed

        Limit.objects.all().delete()
        limits_changed(cast.acme.id)

    await in_thread(lift)
    assert (await answered(socket, ask(library)))[-1]["state"] == "complete"
    await socket.disconnect()
