"""What other processes say: one connection to Redis, and the channels that somebody here needs.

Publishing reaches whoever listens at that moment, and no one else. So a mirror counts what it
has: a message that leaves a gap, a lost connection and a silence all make it read the log.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from apps.chat.streams import keys
from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.keys import Owned
from apps.chat.streams.log import MIRRORED_TAIL, AnswerLog, last_kept, read_kept

logger = logging.getLogger(__name__)

Listener = Callable[[dict[str, Any]], None]

_PAUSE_S = 0.5
_READ_AT_ONCE = 500


class Hub:
    """This process's ear. `mirror` and `listen` say what is needed, `forget` what no longer is."""

    def __init__(self, on_message: Callable[[str, dict[str, Any]], None]) -> None:
        self.mirrors: dict[uuid.UUID, AnswerLog] = {}
        self.heard_at: dict[uuid.UUID, float] = {}
        self._on_message = on_message
        self._wanted: set[str] = {keys.CONTROL}
        self._pubsub: PubSub | None = None
        self._task: asyncio.Task[None] | None = None
        self._catching_up: dict[uuid.UUID, asyncio.Task[None]] = {}
        self._once_more: set[uuid.UUID] = set()

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="chat-hub")

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        own = [self._task] if self._task is not None else []
        return [*own, *self._catching_up.values()]

    async def subscribe(self, channel: str) -> None:
        """Hear a channel from now on, also after the connection was lost."""
        self._wanted.add(channel)
        self.start()
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.subscribe(channel)

    async def unsubscribe(self, channel: str) -> None:
        self._wanted.discard(channel)
        if self._pubsub is not None:
            with suppress(RedisError, OSError):
                await self._pubsub.unsubscribe(channel)

    async def mirror(self, owned: Owned) -> AnswerLog:
        """The log of another process's answer. With Redis away it is empty, and fills later."""
        answer_id = owned[1]
        if (log := self.mirrors.get(answer_id)) is not None:
            return log
        await self.subscribe(keys.answer_channel(answer_id))
        try:
            last, ended = await last_kept(answer_id)
        except (RedisError, OSError):
            last, ended = -1, False
        if (log := self.mirrors.get(answer_id)) is not None:
            return log  # somebody else asked meanwhile
        log = AnswerLog(owned, base=last + 1, tail=MIRRORED_TAIL)
        log.ended = ended
        self.mirrors[answer_id] = log
        self._heard(answer_id)
        # What was said between the two commands, or before the channel was heard.
        self.catch_up(log)
        return log

    async def forget(self, answer_id: uuid.UUID) -> None:
        """Nobody here follows that answer any more, unless somebody does again."""
        if (log := self.mirrors.get(answer_id)) is None or log.watchers:
            return
        self.mirrors.pop(answer_id, None)
        self.heard_at.pop(answer_id, None)
        await self.unsubscribe(keys.answer_channel(answer_id))

    def catch_up(self, log: AnswerLog) -> None:
        """Read what the mirror lacks out of the log."""
        if log.ended or log.broken:
            return
        if log.answer_id in self._catching_up:
            self._once_more.add(log.answer_id)  # what is being read may lack what we miss
            return
        task = asyncio.create_task(self._catch_up(log))
        self._catching_up[log.answer_id] = task
        task.add_done_callback(lambda _: self._catching_up.pop(log.answer_id, None))

    async def caught_up(self, log: AnswerLog) -> None:
        """Have the mirror what the log has by now."""
        self.catch_up(log)
        if (task := self._catching_up.get(log.answer_id)) is not None:
            await asyncio.wait([task])

    async def _catch_up(self, log: AnswerLog) -> None:
        while not log.ended and not is_cancelled():
            end = log.end
            try:
                found = await read_kept(log.answer_id, end, _READ_AT_ONCE)
            except (RedisError, OSError):
                return  # the next silence looks again
            if found is None:
                log.break_off()
                return
            # Messages may have come meanwhile.
            self._add(log, end, found)
            if log.answer_id in self._once_more:
                self._once_more.discard(log.answer_id)
            elif len(found) < _READ_AT_ONCE:
                return

    def _add(self, log: AnswerLog, first: int, frames: list[str]) -> None:
        if first > log.end:
            self.catch_up(log)
            return
        log.mirror(frames[log.end - first :])
        log.trim()

    def _heard(self, answer_id: uuid.UUID) -> None:
        self.heard_at[answer_id] = asyncio.get_running_loop().time()

    async def _listen(self) -> None:
        while not is_cancelled():
            try:
                async with _connection() as connection, connection.pubsub() as pubsub:
                    heard = set(self._wanted)
                    await pubsub.subscribe(*heard)
                    if late := self._wanted - heard:
                        await pubsub.subscribe(*late)
                    await self._hear(pubsub)
            except (RedisError, OSError) as exc:
                logger.warning("other processes are not heard: %s", type(exc).__name__)
            await asyncio.sleep(_PAUSE_S)

    async def _hear(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        try:
            for log in self.mirrors.values():
                self.catch_up(log)  # what was said while nobody listened
            await self._receive(pubsub)
        finally:
            self._pubsub = None  # before it is closed

    async def _receive(self, pubsub: PubSub) -> None:
        while not is_cancelled():
            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=5.0)
            if message is None:
                await pubsub.ping()  # a connection that is dead at the other end fails here
            elif message["type"] == "message":
                self._dispatch(message["channel"].decode(), message["data"])

    def _dispatch(self, channel: str, data: bytes) -> None:
        prefix = f"{keys.PREFIX}answer:"
        if not channel.startswith(prefix):
            with suppress(ValueError):
                self._on_message(channel, json.loads(data))
            return
        log = self.mirrors.get(uuid.UUID(channel[len(prefix) :]))
        if log is not None:
            self._heard(log.answer_id)
            first, *frames = data.decode().split("\n")
            self._add(log, int(first), frames)


def _connection() -> Redis:
    """A connection of its own: it is never given back while the process lives."""
    return Redis.from_url(
        settings.REDIS_URL or "redis://127.0.0.1:1/0",
        socket_connect_timeout=2.0,
        socket_timeout=10.0,
        # Connected again here, where the mirrors can catch up: not quietly, by the client.
        retry=Retry(NoBackoff(), 0),
    )
