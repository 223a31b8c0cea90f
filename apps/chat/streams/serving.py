"""What is done about each message of a client, whose rights have been asked for."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Sequence

from django.utils.translation import gettext
from redis.exceptions import RedisError

from apps.chat import frames
from apps.chat.errors import UnknownAnswer
from apps.chat.metrics import RESUMED
from apps.chat.models import Message, MessageState
from apps.chat.selectors import get_answer
from apps.chat.services import StartedAnswer, continue_answer, restart_answer, start_answer
from apps.chat.streams import arrivals
from apps.chat.streams.log import last_kept
from apps.chat.streams.process import Streams
from apps.chat.streams.reader import Reader
from apps.chat.streams.runs import AnswerRun
from apps.chat.streams.turns import turn
from apps.tenants.access import Access
from apps.tenants.aio import in_scope, in_thread


async def serve(
    streams: Streams, reader: Reader, access: Access, frame: frames.ClientFrame
) -> None:
    """Do as the client says. Raises ChatError or GatewayError with words for the person."""
    match frame:
        case frames.Ping():
            reader.say({"type": "pong"})
        case frames.Ack():
            reader.ack(frame.answer_id, frame.seq)
        case frames.Stop():
            await _stop(streams, access, frame)
        case frames.Follow():
            await _follow(streams, reader, access, frame)
        case frames.Ask() | frames.Regenerate() | frames.Continue():
            # Not broken off with the socket: what is stored must be answered.
            begun = asyncio.ensure_future(_once(streams, reader, access, frame))
            streams.soon(begun)
            await asyncio.shield(begun)


async def _once(
    streams: Streams,
    reader: Reader,
    access: Access,
    frame: frames.Ask | frames.Regenerate | frames.Continue,
) -> None:
    """Begin answers, or follow those that the same message has begun before a break."""
    person = (access.tenant.id, access.user.pk)
    begun = await arrivals.take(person, frame.id)
    if begun is not None:
        for answer_id in begun:
            await _follow(streams, reader, access, frames.Follow(answer_id, -1))
        return
    started: Sequence[StartedAnswer] = ()
    try:
        if isinstance(frame, frames.Ask):
            started = await _ask(streams, reader, access, frame)
        else:
            started = await _answer_again(streams, reader, access, frame)
    finally:
        await arrivals.note(person, frame.id, [each.answer_id for each in started])


async def _ask(
    streams: Streams, reader: Reader, access: Access, frame: frames.Ask
) -> Sequence[StartedAnswer]:
    reader.check_room(max(1, len(frame.models)))
    async with turn(streams, access, frame.conversation_id):
        started = await in_thread(
            start_answer,
            access=access,
            question=frame.question,
            conversation_id=frame.conversation_id,
            after=frame.after,
            collection_ids=frame.collection_ids,
            model_aliases=frame.models,
        )
        _begin(streams, reader, access, started, frame.id)
    await _tell_others(streams, reader, started)
    return started


async def _answer_again(
    streams: Streams,
    reader: Reader,
    access: Access,
    frame: frames.Regenerate | frames.Continue,
) -> Sequence[StartedAnswer]:
    reader.check_room(1)
    answer = await _own_answer(access, frame.answer_id)
    service = (
        continue_answer
        if isinstance(frame, frames.Continue)
        else functools.partial(restart_answer, model_alias=frame.model)
    )
    async with turn(streams, access, answer.conversation_id):
        started = await in_thread(service, access=access, answer_id=frame.answer_id)
        _begin(streams, reader, access, [started], frame.id)
    await _tell_others(streams, reader, [started])
    return [started]


def _begin(
    streams: Streams,
    reader: Reader,
    access: Access,
    started: Sequence[StartedAnswer],
    client_id: str,
) -> None:
    for each in started:
        run = AnswerRun(streams, access, each, client_id=client_id)
        if reader in streams.readers:  # its socket may have broken meanwhile
            reader.follow(run.log, -1)


async def _tell_others(streams: Streams, reader: Reader, started: Sequence[StartedAnswer]) -> None:
    assert reader.person is not None  # noqa: S101 - served only once it is known whose it is
    await streams.tell(reader.person, frames.asked(started), but=reader)


async def _follow(streams: Streams, reader: Reader, access: Access, frame: frames.Follow) -> None:
    answer = await _own_answer(access, frame.answer_id)
    owned = (access.tenant.id, answer.id)
    if answer.state != MessageState.STREAMING and not await _is_kept(streams, answer.id):
        reader.say({"type": "answer.gone", "answer": str(answer.id)})
        return
    reader.check_room(1, but=answer.id)
    reader.follow(await streams.log_of(owned), frame.after)
    RESUMED.inc()


async def _is_kept(streams: Streams, answer_id: uuid.UUID) -> bool:
    """Whether an answer that has ended can be followed to its end."""
    if streams.has(answer_id):
        return True
    try:
        _, ended = await last_kept(answer_id)
    except (RedisError, OSError):
        return False
    return ended


async def _stop(streams: Streams, access: Access, frame: frames.Stop) -> None:
    # Someone else's answer is as unknown here as one that has ended.
    answer = await in_scope(access.tenant.id, get_answer, access, frame.answer_id)
    if answer is not None and answer.state == MessageState.STREAMING:
        await streams.stop((access.tenant.id, answer.id))


async def _own_answer(access: Access, answer_id: uuid.UUID) -> Message:
    answer = await in_scope(access.tenant.id, get_answer, access, answer_id)
    if answer is None:
        raise UnknownAnswer(gettext("That answer is no longer there. Reload the page."))
    return answer
