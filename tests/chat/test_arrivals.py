"""A message that is sent again, because its connection broke, is taken once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from django.conf import settings as site_settings
from pytest_django import Settings
from redis import Redis

from apps.chat.models import Message, MessageRole
from apps.tenants.aio import in_scope
from tests.cast import Cast
from tests.chat.library import Library, open_library
from tests.chat.test_consumer import answered, ask, connected, frame_of, until
from tests.contract.tgi import Behaviour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(f"word{n} " for n in range(10)), token_s=0.02)
        yield opened


async def questions(library: Library) -> int:
    def count() -> int:
        return Message.objects.filter(role=MessageRole.QUESTION).count()

    return await in_scope(library.document.tenant_id, count)


async def test_a_question_that_comes_again_after_its_answer_gets_the_same_answer(
    cast: Cast, library: Library
) -> None:
    message = ask(library, id="once")
    first = await connected(cast.alice)
    frames = await answered(first, message)
    await first.disconnect()
    second = await connected(cast.alice)
    again = await answered(second, message)
    assert again == frames
    assert again[0]["id"] == "once"
    assert await questions(library) == 1
    await second.disconnect()


async def test_a_question_that_comes_again_while_it_is_answered_is_followed_from_the_start(
    cast: Cast, library: Library
) -> None:
    message = ask(library, id="once")
    first = await connected(cast.alice)
    await first.send_to(text_data=message)
    await first.disconnect()  # before a word of it came
    second = await connected(cast.alice)
    frames = await answered(second, message)
    assert [frame["seq"] for frame in frames] == list(range(len(frames)))
    assert "word9" in frames[-1]["html"]
    assert await questions(library) == 1
    await second.disconnect()


async def test_one_sent_twice_at_the_same_time_is_asked_once(cast: Cast, library: Library) -> None:
    message = ask(library, id="once")
    sockets = [await connected(cast.alice) for _ in range(2)]
    both = await asyncio.gather(*(answered(socket, message) for socket in sockets))
    # The other socket may hear of the question besides, as any page of the person does.
    answers = {frame["answer"] for frames in both for frame in frames if "answer" in frame}
    assert len(answers) == 1
    assert await questions(library) == 1
    for socket in sockets:
        await socket.disconnect()


async def test_a_refused_one_may_come_again(cast: Cast, library: Library) -> None:
    socket = await connected(cast.alice)
    await socket.send_to(text_data=ask(library, id="once", question=" "))
    assert (await frame_of(socket))["code"] == "question_empty"
    await answered(socket, ask(library, id="once"))
    await socket.disconnect()


async def test_another_person_with_the_same_id_asks_a_question_of_their_own(
    cast: Cast, library: Library
) -> None:
    for user, expected in ((cast.alice, 1), (cast.bob, 2)):
        socket = await connected(user)
        await answered(socket, ask(library, id="once"))
        assert await questions(library) == expected
        await socket.disconnect()


async def test_regenerating_twice_with_one_id_makes_one_answer(
    cast: Cast, library: Library
) -> None:
    socket = await connected(cast.alice)
    frames = await answered(socket, ask(library))
    again = {"v": 2, "type": "regenerate", "id": "r", "answer": frames[0]["answer"], "model": ""}
    made = [await answered(socket, json.dumps(again)) for _ in range(2)]
    assert made[0][0]["answer"] == made[1][0]["answer"] != frames[0]["answer"]
    await socket.disconnect()


async def test_what_is_kept_of_a_process_that_died_letting_it_in_is_forgotten(
    cast: Cast, library: Library
) -> None:
    from apps.chat.streams.keys import arrival_key

    key = arrival_key((cast.acme.id, cast.alice.pk), "once")
    with Redis.from_url(site_settings.REDIS_URL) as store:
        store.set(key, "", px=300)
    socket = await connected(cast.alice)
    await socket.send_to(text_data=ask(library, id="once"))
    frames = await until(socket, "answer.finished")
    assert frames[-1]["state"] == "complete"
    await socket.disconnect()
