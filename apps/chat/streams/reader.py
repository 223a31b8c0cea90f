"""One socket's side: where it is in each answer, what it has acknowledged, and one sending task.

Frames wait in their logs, not here: a socket holds numbers. It is sent at most `WINDOW` frames of
an answer beyond those it has acknowledged. The few things said outside an answer are queued.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from apps.chat import frames
from apps.chat.errors import ChatError
from apps.chat.metrics import FOLLOWED
from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.keys import Person
from apps.chat.streams.log import AnswerLog
from apps.gateway.errors import GatewayError

if TYPE_CHECKING:
    from apps.chat.streams.process import Streams

# Ten seconds of a stream: a client acknowledges several times a second.
WINDOW = 200
PING_S = 25
SILENCE_S = 75.0  # three pings were not heard
STALL_S = 60.0  # a full window, and not one acknowledgement
# A page shows one conversation: one answer is written there, or two that are compared.
MOST_FOLLOWED = 16
MOST_SAID = 256
_AT_ONCE = 50
_AWAY_S = 0.5

STAYED_AWAY = 4408
FLOODED, FAULTY = 1008, 1011
CLOSE_CODES = {"signed_out": 4401, "not_a_member": 4403, "frame_too_large": 1009}


@dataclass
class Cursor:
    """How far one socket is in one answer."""

    log: AnswerLog
    next: int  # the number of the frame to send next
    acked: int  # the first number that has not been acknowledged
    has_sent: bool = False
    full_since: float | None = None  # when its window became full

    @property
    def room(self) -> int:
        return WINDOW - (self.next - self.acked)

    @property
    def is_full(self) -> bool:
        return self.room <= 0 and self.log.shown > self.next


class Reader:
    """Sends one socket what it follows and what it is told."""

    def __init__(
        self,
        streams: Streams,
        *,
        session_key: str | None,
        send: Callable[[str], Awaitable[None]],
        close: Callable[[int], Awaitable[None]],
    ) -> None:
        self.streams = streams
        self.person: Person | None = None  # once it is known whose socket it is
        self.session_key = session_key
        self._send = send
        self._close = close
        self._cursors: dict[uuid.UUID, Cursor] = {}
        self._said: deque[str] = deque()
        self._wake = asyncio.Event()
        self._closing: int | None = None
        self._heard_at = asyncio.get_running_loop().time()
        self._sending_since: float | None = None
        self.task = asyncio.create_task(self._run(), name="chat-reader")

    def heard(self) -> None:
        """The client has sent something."""
        self._heard_at = asyncio.get_running_loop().time()

    def say(self, frame: dict[str, Any]) -> None:
        """Send something that is not about an answer's writing; never waits."""
        if len(self._said) >= MOST_SAID:
            self.close(STAYED_AWAY)
            return
        self._said.append(frames.encode(frame))
        self._wake.set()

    def refuse(self, exc: ChatError | GatewayError, *, client_id: str = "") -> None:
        """Say what is wrong; some of it ends the socket."""
        self.say(frames.error(exc, client_id=client_id))
        if exc.code in CLOSE_CODES:
            self.close(CLOSE_CODES[exc.code])

    def close(self, code: int) -> None:
        """Close the socket once what was said is sent."""
        if self._closing is None:
            self._closing = code
            self._wake.set()

    def check_room(self, more: int, *, but: uuid.UUID | None = None) -> None:
        """Raises ChatError where so many more answers are too many."""
        if len(self._cursors.keys() - {but}) + more > MOST_FOLLOWED:
            raise ChatError(_("Too many answers are followed at once. Reload the page."))

    def follow(self, log: AnswerLog, after: int) -> None:
        """Send that log's frames from the one after `after` on."""
        self.unfollow(log.answer_id)
        self._cursors[log.answer_id] = Cursor(log, next=after + 1, acked=after + 1)
        log.watchers.add(self._wake.set)
        FOLLOWED.inc()
        self._wake.set()

    def unfollow(self, answer_id: uuid.UUID) -> None:
        cursor = self._cursors.pop(answer_id, None)
        if cursor is not None:
            cursor.log.watchers.discard(self._wake.set)
            FOLLOWED.dec()
            self.streams.unfollow(cursor.log)

    def ack(self, answer_id: uuid.UUID, seq: int) -> None:
        """Frames up to `seq` have arrived. What was never sent cannot have."""
        cursor = self._cursors.get(answer_id)
        if cursor is not None and cursor.acked <= seq < cursor.next:
            cursor.acked = seq + 1
            cursor.full_since = None
            self._wake.set()

    def leave(self) -> None:
        """The socket is gone."""
        self.task.cancel()
        for answer_id in list(self._cursors):
            self.unfollow(answer_id)

    def look(self, now: float) -> None:
        """Let go of a client that has been silent, or has taken nothing, for too long."""
        full = [c.full_since for c in self._cursors.values() if c.full_since is not None]
        oldest = min([*full, self._sending_since or now], default=now)
        if now - self._heard_at > SILENCE_S or now - oldest > STALL_S:
            self.close(STAYED_AWAY)
        if self._sending_since is not None and now - self._sending_since > 2 * STALL_S:
            self.task.cancel()  # a close would wait behind what is being sent

    async def _run(self) -> None:
        while not is_cancelled():
            await self._wake.wait()
            self._wake.clear()
            await self._say_all()
            if self._closing is not None:
                await self._close(self._closing)
                return
            for cursor in list(self._cursors.values()):
                await self._advance(cursor)

    async def _say_all(self) -> None:
        while self._said:
            await self._put(self._said.popleft())

    async def _advance(self, cursor: Cursor) -> None:
        """Send what there is, as far as the window goes."""
        log = cursor.log
        while cursor.room > 0 and cursor.next < log.shown and self._closing is None:
            count = min(cursor.room, log.shown - cursor.next, _AT_ONCE)
            try:
                found = await self.streams.read(log, cursor.next, count)
            except (RedisError, OSError):
                asyncio.get_running_loop().call_later(_AWAY_S, self._wake.set)
                return
            if found is None:
                self._tell_gone(cursor)
                return
            if self._cursors.get(log.answer_id) is not cursor:
                return  # followed anew meanwhile
            for frame in found:
                cursor.next += 1
                cursor.has_sent = True
                await self._put(frame)
            await self._say_all()
        if log.ended and cursor.next == log.end and cursor.has_sent:
            self._drop(cursor)
        elif log.broken or (log.ended and cursor.next >= log.end):
            self._tell_gone(cursor)
        elif cursor.is_full and cursor.full_since is None:
            cursor.full_since = asyncio.get_running_loop().time()

    def _tell_gone(self, cursor: Cursor) -> None:
        if self._drop(cursor):
            self.say({"type": "answer.gone", "answer": str(cursor.log.answer_id)})

    def _drop(self, cursor: Cursor) -> bool:
        if self._cursors.get(cursor.log.answer_id) is not cursor:
            return False
        self.unfollow(cursor.log.answer_id)
        return True

    async def _put(self, text: str) -> None:
        self._sending_since = asyncio.get_running_loop().time()
        await self._send(text)
        self._sending_since = None
