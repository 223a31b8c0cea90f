"""Answers whose process died: ended once, with all that was written of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pytest_django import Settings

from apps.chat import frames
from apps.chat.models import Message, MessageState
from apps.chat.pipeline.types import Outcome
from apps.chat.services import StartedAnswer, start_answer, store_sources
from apps.chat.services.recovering import store_checkpoint
from apps.chat.streams import keys, owning, sweeping
from apps.chat.streams.evidence import keep_evidence
from apps.chat.streams.log import AnswerLog
from apps.chat.streams.recovery import recover
from apps.chat.streams.writer import append
from apps.gateway.redis import client
from apps.retrieval.types import Passage
from apps.tenants.access import Access, find_access
from apps.tenants.aio import in_scope, in_thread
from tests.cast import Cast
from tests.chat.library import PASSAGES, SUPPORTED, Library, open_library
from tests.chat.processes import WebProcess, follow, rest_of, seqs, text_of
from tests.chat.test_consumer import QUESTION, ask, stored, until
from tests.contract.tgi import Behaviour

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def library(cast: Cast, settings: Settings) -> Iterator[Library]:
    settings.TITLES = "rule"
    with open_library(cast.acme, settings) as opened:
        yield opened


@dataclass
class Left:
    """An answer that a process was writing when it was killed."""

    access: Access
    started: StartedAnswer

    @property
    def owned(self) -> keys.Owned:
        return self.access.tenant.id, self.started.answer_id

    async def write(self, *pieces: str, evidence: bool = True) -> None:
        """What had reached Redis."""
        log = AnswerLog(self.owned)
        told = [frames.started(self.started, "q1")]
        told += [{"type": "answer.tokens", "text": piece} for piece in pieces]
        for frame in told:
            log.append(frames.of_answer(frame, self.started.answer_id, log.end))
        assert await append(log)
        if evidence:
            passages = tuple(_passage(text) for text in PASSAGES)
            outcome = Outcome(passages=passages, given=len(passages), widened=passages)
            await keep_evidence(self.started.answer_id, outcome)

    async def expire(self) -> None:
        """Its lease has run out."""
        await client().zadd(keys.OWNED, {f"{self.owned[0]}:{self.owned[1]}": 1})


async def left_by(cast: Cast, library: Library) -> Left:
    def begin() -> Left:
        access = find_access(cast.bob, slug="acme")
        assert access is not None
        (started,) = start_answer(
            access=access,
            question=QUESTION,
            conversation_id=None,
            after=None,
            collection_ids=[library.collection.id],
            model_aliases=["tgi"],
        )
        passages = [_passage(text) for text in PASSAGES]
        store_sources(access=access, started=started, passages=passages)
        return Left(access, started)

    return await in_thread(begin)


def _passage(text: str) -> Passage:
    document = uuid.uuid4()
    places = {"page_first": 1, "page_last": 1, "char_start": 0, "char_end": len(text)}
    return Passage(
        chunk_id=uuid.uuid4(),
        document_id=document,
        document_name="handbook.md",
        heading_path="",
        text=text,
        score=1.0,
        relevance=1.0,
        **places,
    )


async def test_a_follower_sees_it_end_as_interrupted_with_the_very_frames_there_were(
    cast: Cast, library: Library
) -> None:
    left = await left_by(cast, library)
    await left.write(SUPPORTED, " And on")
    await left.expire()
    socket = await WebProcess().socket(cast.bob)
    await follow(socket, left.started.answer_id, -1)
    got = await rest_of(socket, left.started.answer_id)
    assert seqs(got) == list(range(len(got)))
    assert text_of(got) == f"{SUPPORTED} And on"
    assert [frame["type"] for frame in got[-2:]] == ["answer.notice", "answer.finished"]
    assert (got[-2]["code"], got[-1]["state"]) == ("site_restarted", "interrupted")
    assert got[-1]["cited"] == [1]
    answer = await stored(library, str(left.started.answer_id))
    assert (answer.state, answer.text) == (MessageState.INTERRUPTED, f"{SUPPORTED} And on")
    assert [notice["code"] for notice in answer.notices] == ["site_restarted"]
    await socket.disconnect()


async def test_it_is_ended_once_by_however_many_that_notice(cast: Cast, library: Library) -> None:
    left = await left_by(cast, library)
    await left.write(SUPPORTED)
    ended = await asyncio.gather(*(recover(left.owned) for _ in range(5)))
    assert sum(ended) == 1
    kept = await client().xrange(keys.frames_key(left.started.answer_id))
    assert [b"answer.finished" in fields[b"f"] for _, fields in kept] == [False] * 3 + [True]


async def test_nobody_need_follow_it_for_it_to_be_ended(cast: Cast, library: Library) -> None:
    left = await left_by(cast, library)
    await left.write(SUPPORTED)
    await left.expire()
    assert await in_thread(sweeping.sweep) == 1
    assert await in_thread(sweeping.sweep) == 0
    answer = await stored(library, str(left.started.answer_id))
    assert answer.state == MessageState.INTERRUPTED


async def test_one_without_a_lease_is_given_one_and_ended_when_that_runs_out(
    cast: Cast, library: Library
) -> None:
    left = await left_by(cast, library)
    assert await owning.look([left.owned]) == {left.owned: owning.Held.ALIVE}
    assert await in_thread(sweeping.sweep) == 0
    await left.expire()
    assert await in_thread(sweeping.sweep) == 1


@pytest.mark.parametrize("in_redis", [SUPPORTED, "Employees"], ids=["log", "checkpoint"])
async def test_the_longer_of_log_and_checkpoint_is_kept(
    cast: Cast, library: Library, in_redis: str
) -> None:
    left = await left_by(cast, library)
    await left.write(in_redis)
    tenant_id, answer_id = left.owned
    checkpoint = "Employees receive"
    await in_thread(store_checkpoint, tenant_id=tenant_id, answer_id=answer_id, text=checkpoint)
    assert await recover(left.owned)
    kept = (await stored(library, str(answer_id))).text
    assert kept == max(in_redis, checkpoint, key=len)
    # Whoever follows it is shown that text too.
    socket = await WebProcess().socket(cast.bob)
    await follow(socket, answer_id, -1)
    assert text_of(await rest_of(socket, answer_id)) == kept
    await socket.disconnect()


async def test_without_redis_the_checkpoint_is_kept_and_nothing_is_called_unsupported(
    cast: Cast, library: Library
) -> None:
    left = await left_by(cast, library)
    tenant_id, answer_id = left.owned
    await in_thread(store_checkpoint, tenant_id=tenant_id, answer_id=answer_id, text=SUPPORTED)
    assert await recover(left.owned)
    answer = await stored(library, str(answer_id))
    assert (answer.text, answer.support) == (SUPPORTED, [])


async def test_the_next_question_does_not_wait_for_a_dead_answer(
    cast: Cast, library: Library
) -> None:
    left = await left_by(cast, library)
    await left.write(SUPPORTED)
    await left.expire()
    socket = await WebProcess().socket(cast.bob)
    again = {"conversation": str(left.started.conversation_id), "after": str(left.owned[1])}
    await socket.send_to(text_data=ask(library, **again))
    assert (await until(socket, "answer.finished"))[-1]["state"] == "complete"
    await socket.disconnect()


async def test_an_owner_that_was_taken_for_dead_stops_and_its_readers_are_told(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 500), token_s=0.02)
    process = WebProcess()
    socket = await process.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer = (await until(socket, "answer.tokens"))[-1]["answer"]
    assert await recover((cast.acme.id, uuid.UUID(answer)))
    got = await rest_of(socket, answer)
    assert got[-1]["state"] == "interrupted"
    while library.tgi.open_generations:  # noqa: ASYNC110 - a double's counter, not an event
        await asyncio.sleep(0.01)
    await socket.disconnect()


async def test_a_process_that_stops_in_order_ends_what_it_writes_as_interrupted(
    cast: Cast, library: Library
) -> None:
    library.tgi.default = Behaviour(tokens=tuple(["word "] * 500), token_s=0.02)
    here, there = WebProcess(), WebProcess()
    socket, other = await here.socket(cast.bob), await there.socket(cast.bob)
    await socket.send_to(text_data=ask(library))
    answer = (await until(socket, "answer.tokens"))[-1]["answer"]
    await follow(other, answer, -1)
    await until(other, "answer.tokens")  # it follows, before there is an end
    await here.streams.end_runs()
    got = await rest_of(other, answer)
    assert got[-1]["state"] == "interrupted"
    assert [each["code"] for each in got if each["type"] == "answer.notice"] == ["site_restarted"]

    def count() -> int:
        return Message.objects.filter(id=answer, state=MessageState.INTERRUPTED).count()

    assert await in_scope(cast.acme.id, count) == 1
    await socket.disconnect()
    await other.disconnect()
