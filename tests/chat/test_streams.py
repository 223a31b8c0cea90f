"""Answers followed from wherever a reader is: exactly once each frame, on any process."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from pytest_django import Settings

from apps.chat.models import MessageState
from apps.chat.streams import keys, reader
from apps.chat.streams.log import AnswerLog
from apps.chat.streams.telling import tell_user
from apps.gateway.redis import client
from apps.tenants.aio import in_thread
from ragsite.stack.redis import Redis
from tests.cast import Cast, signed_in
from tests.chat.library import SUPPORTED, Library, open_library
from tests.chat.processes import WebProcess, follow, rest_of, say, seqs, text_of
from tests.chat.test_consumer import ask, frame_of, stored, until
from tests.contract.tgi import Behaviour

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = tuple(f"word{n} " for n in range(60))
SLOW = Behaviour(tokens=WORDS, token_s=0.02)


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    settings.TITLES = "rule"
    with open_library(cast.acme, settings) as opened:
        opened.tgi.default = Behaviour(tokens=tuple(f"{word} " for word in SUPPORTED.split()))
        yield opened


async def begun(socket: WebsocketCommunicator, library: Library, **changes: Any) -> str:
    """An answer's id, once its text has begun."""
    await socket.send_to(text_data=ask(library, **changes))
    return str((await until(socket, "answer.tokens"))[-1]["answer"])


async def test_an_answer_that_ended_is_followed_from_any_frame_on(
    cast: Cast, library: Library
) -> None:
    here, there = WebProcess(), WebProcess()
    socket = await here.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    frames = await until(socket, "answer.finished")
    answer, last = frames[0]["answer"], frames[-1]["seq"]
    other = await there.socket(cast.bob)
    for after in (-1, 0, last // 2, last - 1):
        await follow(other, answer, after)
        assert await rest_of(other, answer) == frames[after + 1 :]
    await socket.disconnect()
    await other.disconnect()


async def test_another_process_sees_an_answer_being_written(cast: Cast, library: Library) -> None:
    library.tgi.default = SLOW
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    answer = await begun(socket, library)
    await follow(other, answer, -1)
    frames = await rest_of(other, answer)
    assert seqs(frames) == list(range(len(frames)))
    assert text_of(frames) == "".join(WORDS)
    await socket.disconnect()
    await other.disconnect()


async def test_a_reader_who_comes_and_goes_misses_nothing_and_gets_nothing_twice(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = SLOW
    processes = [WebProcess(), WebProcess()]
    socket = await processes[0].socket(cast.bob)
    answer = await begun(socket, library)
    await socket.disconnect()
    chance, seen = random.Random(7), []  # noqa: S311 - no secret
    while not seen or seen[-1]["type"] != "answer.finished":
        socket = await chance.choice(processes).socket(cast.bob)
        await follow(socket, answer, len(seen) - 1)
        for _ in range(chance.randrange(1, 12)):
            seen.append(await frame_of(socket, timeout_s=20))
            if seen[-1]["type"] == "answer.finished":
                break
        await socket.disconnect()
    assert seqs(seen) == list(range(len(seen)))
    assert text_of(seen) == "".join(WORDS)


async def test_messages_that_were_not_heard_are_read_from_the_log(
    cast: Cast, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.tgi.default = SLOW
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    answer = await begun(socket, library)
    await follow(other, answer, -1)
    chance, hear = random.Random(3), there.streams.hub._dispatch  # noqa: S311 - no secret

    def hear_some(channel: str, data: bytes) -> None:
        if b"answer.finished" not in data and chance.random() < 0.5:
            hear(channel, data)

    monkeypatch.setattr(there.streams.hub, "_dispatch", hear_some)
    frames = await rest_of(other, answer)
    assert seqs(frames) == list(range(len(frames)))
    await socket.disconnect()
    await other.disconnect()


async def test_a_slow_reader_is_sent_a_window_and_goes_on_once_it_acknowledges(
    cast: Cast, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WINDOW", 10)
    library.tgi.default = SLOW
    process = WebProcess()
    socket = await process.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    got = [await frame_of(socket) for _ in range(10)]
    while process.streams.runs:  # noqa: ASYNC110 - a run's end, not an event
        await asyncio.sleep(0.05)
    assert await socket.receive_nothing(0.3)
    answer = got[0]["answer"]
    # What was never sent cannot have arrived.
    await say(socket, type="ack", answer=answer, seq=10_000)
    assert await socket.receive_nothing(0.3)
    await say(socket, type="ack", answer=answer, seq=9)
    got += await rest_of(socket, answer)
    assert seqs(got) == list(range(len(got)))
    assert text_of(got) == "".join(WORDS)
    await socket.disconnect()


async def test_a_reader_that_stays_away_is_closed_and_its_answer_goes_on(
    cast: Cast, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WINDOW", 5)
    monkeypatch.setattr(reader, "STALL_S", 0.3)
    library.tgi.default = SLOW
    process = WebProcess()
    socket = await process.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer = (await frame_of(socket))["answer"]
    async with asyncio.timeout(10):
        while (output := await socket.receive_output(10))["type"] != "websocket.close":
            pass
    assert output["code"] == 4408
    assert uuid.UUID(answer) in process.streams.runs
    await socket.disconnect()


async def test_a_silent_socket_is_closed(
    cast: Cast, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SILENCE_S", 0.2)
    socket = await WebProcess().socket(cast.bob)
    assert (await socket.receive_output(10))["code"] == 4408


def test_nobody_is_shown_what_a_death_of_the_process_could_take_back() -> None:
    log = AnswerLog((uuid.uuid4(), uuid.uuid4()))
    told: list[int] = []
    log.watchers.add(lambda: told.append(log.shown))
    log.append("frame 0")
    log.append("frame 1")
    assert (log.shown, told) == (0, [])
    log.keep(1)
    assert told == [1]
    log.lose()  # Redis is away: there is nothing to wait for
    log.append("frame 2")
    assert told == [1, 2, 3]
    log.keep(3)
    log.append("frame 3")
    assert log.shown == 3


def test_an_owners_memory_of_what_redis_has_is_bounded() -> None:
    log = AnswerLog((uuid.uuid4(), uuid.uuid4()), tail=200)
    for number in range(10_000):
        log.append(f"frame {number}")
        log.keep(log.end)
        log.trim()
    assert log.end == 10_000
    assert len(log._frames) < 310
    assert log.read(log.base, 1) == [f"frame {log.base}"]
    assert log.read(log.base - 1, 1) is None


async def test_stop_on_another_process_frees_the_engine_within_a_second(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 1000), token_s=0.02)
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    answer = await begun(socket, library)
    asked = time.monotonic()
    await say(other, type="stop", answer=answer)
    while library.tgi.open_generations:  # noqa: ASYNC110 - a double's counter, not an event
        await asyncio.sleep(0.01)
    assert time.monotonic() - asked < 1
    assert (await until(socket, "answer.finished"))[-1]["state"] == "stopped"
    await socket.disconnect()
    await other.disconnect()


async def test_a_stop_that_was_not_heard_is_found_with_the_next_renewal(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 1000), token_s=0.02)
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    answer = await begun(socket, library)
    here.streams.hub._on_message = lambda channel, message: None
    await say(other, type="stop", answer=answer)
    assert (await rest_of(socket, answer))[-1]["state"] == "stopped"
    await socket.disconnect()
    await other.disconnect()


async def test_a_conversation_is_busy_on_every_process_and_for_every_kind_of_question(
    cast: Cast, library: Library
) -> None:
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    first = await until(socket, "answer.finished")
    conversation, ended = first[0]["conversation"], first[0]["answer"]
    library.tgi.default = SLOW
    await begun(socket, library, conversation=conversation, after=ended)
    await other.send_to(text_data=ask(library, conversation=conversation, after=ended))
    assert (await until(other, "error"))[-1]["code"] == "busy"
    await say(other, type="regenerate", id="again", answer=ended, model="")
    assert (await until(other, "error"))[-1]["code"] == "busy"
    await until(socket, "answer.finished")
    await socket.disconnect()
    await other.disconnect()


async def test_other_pages_hear_of_a_question_and_can_follow_its_answers(
    cast: Cast, library: Library
) -> None:
    here, there = WebProcess(), WebProcess()
    sockets = [await here.socket(cast.bob), await here.socket(cast.bob)]
    other, stranger = await there.socket(cast.bob), await there.socket(cast.carl)
    await sockets[0].send_to(text_data=ask(library, question="Leave?"))
    frames = await until(sockets[0], "answer.finished")
    assert "conversation.asked" not in {frame["type"] for frame in frames}
    for socket in (sockets[1], other):
        told = (await until(socket, "conversation.asked"))[-1]
        assert (told["question"]["text"], told["question"]["after"]) == ("Leave?", None)
        assert [each["id"] for each in told["answers"]] == [frames[0]["answer"]]
        await follow(socket, told["answers"][0]["id"], -1)
        assert await rest_of(socket, frames[0]["answer"]) == frames
    assert await stranger.receive_nothing(0.3)
    for socket in (*sockets, other, stranger):
        await socket.disconnect()


async def test_a_service_tells_all_pages_of_a_person(cast: Cast, library: Library) -> None:
    socket, stranger = await WebProcess().socket(cast.bob), await WebProcess().socket(cast.carl)
    frame = {"type": "conversation.listed", "conversation": str(uuid.uuid4())}
    await in_thread(tell_user, cast.acme.id, cast.bob.pk, frame)
    assert await frame_of(socket) == {"v": 2, **frame}
    assert await stranger.receive_nothing(0.3)
    await socket.disconnect()
    await stranger.disconnect()


async def test_signing_out_elsewhere_closes_that_sessions_sockets_and_no_others(
    cast: Cast, library: Library
) -> None:
    process = WebProcess()
    socket, phone = await process.socket(cast.bob), await process.socket(cast.bob)
    browser = await in_thread(signed_in, None)
    browser.cookies["sessionid"] = dict(phone.scope["headers"])[b"cookie"].decode().split("=")[1]
    await in_thread(browser.logout)
    assert (await frame_of(phone))["code"] == "signed_out"
    assert (await phone.receive_output())["code"] == 4401
    assert await socket.receive_nothing(0.2)
    await socket.disconnect()


@pytest.mark.parametrize(
    "after", [-2, 2**31 + 1, 2**80, 1.5, True, None, "5", [], "' OR 1=1", float("inf")]
)
async def test_a_malformed_place_is_refused_and_replays_nothing(
    cast: Cast, library: Library, after: Any
) -> None:
    socket = await WebProcess().socket(cast.bob)
    await say(socket, type="follow", answer=str(uuid.uuid4()), after=after)
    assert (await frame_of(socket))["code"] == "frame_malformed"
    await socket.disconnect()


async def test_a_place_beyond_the_end_and_what_is_not_kept_are_gone(
    cast: Cast, library: Library
) -> None:
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    frames = await until(socket, "answer.finished")
    answer = frames[0]["answer"]
    for after in (frames[-1]["seq"], 2**31):
        await follow(other, answer, after)
        (gone,) = await rest_of(other, answer)
        assert gone == {"v": 2, "type": "answer.gone", "answer": answer}
    # A hole: what comes before it is not given out as if nothing were missing.
    await client().xdel(keys.frames_key(uuid.UUID(answer)), "3-0")
    await follow(other, answer, -1)
    assert (await rest_of(other, answer))[-1]["type"] == "answer.gone"
    await client().delete(keys.frames_key(uuid.UUID(answer)))
    await follow(other, answer, -1)
    assert [frame["type"] for frame in await rest_of(other, answer)] == ["answer.gone"]
    await socket.disconnect()
    await other.disconnect()


async def test_another_persons_answer_is_unknown_to_whoever_follows_it(
    cast: Cast, library: Library
) -> None:
    process = WebProcess()
    socket, other = await process.socket(cast.bob), await process.socket(cast.carl)
    await socket.send_to(text_data=ask(library))
    answer = (await until(socket, "answer.finished"))[-1]["answer"]
    for wanted in (answer, str(uuid.uuid4())):
        await follow(other, wanted, -1)
        assert (await frame_of(other))["code"] == "unknown_answer"
    await socket.disconnect()
    await other.disconnect()


async def test_a_flood_closes_the_socket(cast: Cast, library: Library) -> None:
    socket = await WebProcess().socket(cast.bob)
    for _ in range(300):
        await say(socket, type="ping")
    async with asyncio.timeout(10):
        while (output := await socket.receive_output(10))["type"] != "websocket.close":
            pass
    assert output["code"] == 1008


@asynccontextmanager
async def own_redis(settings: Settings, folder: Path) -> AsyncIterator[Redis]:
    """A Redis of this test's own, which it may restart."""
    server = Redis(log=folder / "redis.log", run_dir=folder)
    await in_thread(server.start)
    settings.REDIS_URL = server.url
    try:
        yield server
    finally:
        await in_thread(server.stop)


@pytest.mark.slow
async def test_redis_restarted_in_the_middle_loses_no_frame_of_anybody(
    cast: Cast, library: Library, settings: Settings, tmp_path: Path
) -> None:
    library.tgi.default = Behaviour(tokens=WORDS * 3, token_s=0.03)
    async with own_redis(settings, tmp_path) as server:
        here, there = WebProcess(), WebProcess()
        socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
        answer = await begun(socket, library)
        await follow(other, answer, -1)
        await until(other, "answer.tokens")
        await in_thread(server.stop)
        await until(socket, "answer.tokens")
        await in_thread(server.start)
        # The owner writes anew what Redis has lost; the other process reads on from there.
        frames = await rest_of(other, answer)
        assert frames[-1]["state"] == "complete"
        assert seqs(frames) == list(range(frames[0]["seq"], frames[-1]["seq"] + 1))
        await follow(other, answer, -1)
        again = await rest_of(other, answer)
        assert text_of(again) == "".join(WORDS * 3)
        await socket.disconnect()
        await other.disconnect()


@pytest.mark.slow
async def test_with_redis_away_an_answer_reaches_the_sockets_of_its_process(
    cast: Cast, library: Library, settings: Settings
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    process = WebProcess()
    socket, other = await process.socket(cast.bob), await process.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    frames = []
    while not frames or frames[-1]["type"] != "answer.finished":
        frames.append(await frame_of(socket, timeout_s=30))
    assert (frames[-1]["state"], frames[-1]["kind"]) == ("complete", "quoted")
    await follow(other, frames[0]["answer"], -1)
    assert await rest_of(other, frames[0]["answer"]) == frames
    assert (await stored(library, frames[0]["answer"])).state == MessageState.COMPLETE
    await socket.disconnect()
    await other.disconnect()
