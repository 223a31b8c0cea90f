"""What one process knows of answers being written, its own and others'."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop
from redis.exceptions import RedisError

from apps.chat.errors import SignedOut
from apps.chat.metrics import RUNS, SOCKETS
from apps.chat.streams import keys, owning
from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.hub import Hub
from apps.chat.streams.keys import Owned, Person
from apps.chat.streams.log import AnswerLog, read_kept
from apps.chat.streams.owning import Leases
from apps.chat.streams.recovery import recover
from apps.chat.streams.writer import LogWriter
from apps.gateway.redis import client
from apps.inference.per_loop import PerLoop

if TYPE_CHECKING:
    from apps.chat.streams.reader import Reader
    from apps.chat.streams.runs import AnswerRun

logger = logging.getLogger(__name__)

SIGNED_OUT = gettext_noop("You have been signed out. Sign in again.")
# How often sockets are looked at (silent, stalled) and mirrors that have not been heard from.
_TICK_S = 1.0
_SILENT_S = 2.0
# What has ended is followed from memory where Redis could not take it.
_LINGER_S = 60.0
_FLUSHED_S = 0.1
_DRAIN_S = 3.0


class Streams:
    """Runs, logs and sockets of this process, and its links to the others.

    All of it belongs to one event loop. With Redis away, answers of this process still reach the
    sockets of this process.
    """

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.runs: dict[uuid.UUID, AnswerRun] = {}
        self.readers: set[Reader] = set()
        self.letting_in: set[uuid.UUID] = set()  # conversations with a question at the door
        self.writer = LogWriter(on_overtaken=self._overtaken)
        self.leases = Leases(self.stop_here)
        self.hub = Hub(self._on_message)
        self._own: dict[uuid.UUID, AnswerLog] = {}
        self._people: dict[Person, set[Reader]] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        _before_shutdown(self.end_runs)

    # --- Answers ---------------------------------------------------------------------------

    def begin(self, run: AnswerRun) -> AnswerLog:
        """The log of an answer that this process writes from now on."""
        log = AnswerLog(run.owned)
        self.runs[run.answer_id] = run
        self._own[run.answer_id] = log
        self.leases.take(run.owned)
        RUNS.inc()
        return log

    def end(self, run: AnswerRun) -> None:
        """That answer has its last frame."""
        if self.runs.pop(run.answer_id, None) is not None:
            RUNS.dec()
        self.leases.release(run.owned)
        self.soon(self._let_go(run.answer_id))

    async def _let_go(self, answer_id: uuid.UUID) -> None:
        """Forget its log once Redis has it; where Redis is away, a minute later."""
        log = self._own[answer_id]
        until = asyncio.get_running_loop().time() + _LINGER_S
        while log.written < log.end and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
            await asyncio.sleep(_FLUSHED_S)
        self._own.pop(answer_id, None)

    def has(self, answer_id: uuid.UUID) -> bool:
        """Whether this process has the log of an answer of its own."""
        return answer_id in self._own

    async def log_of(self, owned: Owned) -> AnswerLog:
        """An answer's log: one's own, or a mirror of another process's."""
        return self._own.get(owned[1]) or await self.hub.mirror(owned)

    async def read(self, log: AnswerLog, seq: int, limit: int) -> list[str] | None:
        """Frames from `seq` on, at most `limit`; None where they cannot be had any more.

        Raises RedisError or OSError where they can not be had now.
        """
        found = log.read(seq, limit)
        if found is not None:
            return list(found)
        return await read_kept(log.answer_id, seq, limit) or None

    def unfollow(self, log: AnswerLog) -> None:
        """A socket has done with that log."""
        if not log.watchers and self.hub.mirrors.get(log.answer_id) is log:
            self.soon(self.hub.forget(log.answer_id))

    async def stop(self, owned: Owned) -> None:
        """End an answer, wherever it is written."""
        if owned[1] in self.runs:
            self.stop_here(owned[1])
            return
        await owning.ask_to_stop(owned)
        await self._publish(keys.CONTROL, {"stop": str(owned[1])})

    def stop_here(self, answer_id: uuid.UUID) -> None:
        run = self.runs.get(answer_id)
        if run is not None:
            run.stop()

    async def end_runs(self) -> None:
        """The process goes down: what it writes is broken off, and stored."""
        runs = list(self.runs.values())
        for run in runs:
            run.interrupt()
        await asyncio.gather(*(run.wait() for run in runs), return_exceptions=True)
        await self.writer.drain(_DRAIN_S)

    async def close(self) -> None:
        """Leave nothing behind in the event loop."""
        await self.end_runs()
        tasks = [*self._tasks, *self.writer.tasks, *self.leases.tasks, *self.hub.tasks]
        tasks += [reader.task for reader in self.readers]
        tasks += [self._ticker] if self._ticker is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _overtaken(self, answer_id: uuid.UUID) -> None:
        """Another process took this one for dead, and has ended its answer."""
        run = self.runs.get(answer_id)
        if run is not None:
            logger.warning("answer %s was ended by another process", answer_id)
            run.interrupt()

    # --- Sockets and people ----------------------------------------------------------------

    def join(self, reader: Reader) -> None:
        """A socket is open."""
        self.readers.add(reader)
        SOCKETS.inc()
        if self._ticker is None or self._ticker.done():
            self._ticker = asyncio.create_task(self._tick(), name="chat-ticker")
        self.hub.start()

    async def introduce(self, reader: Reader, person: Person) -> None:
        """It is known whose socket it is: it hears what happens in that person's conversations."""
        reader.person = person
        listening = self._people.setdefault(person, set())
        listening.add(reader)
        if len(listening) == 1:
            await self.hub.subscribe(keys.user_channel(*person))

    async def part(self, reader: Reader) -> None:
        """A socket is gone."""
        if reader in self.readers:
            self.readers.discard(reader)
            SOCKETS.dec()
        reader.leave()
        person = reader.person
        if person is None or person not in self._people:
            return
        self._people[person].discard(reader)
        if not self._people[person]:
            del self._people[person]
            await self.hub.unsubscribe(keys.user_channel(*person))

    async def tell(
        self, person: Person, frame: dict[str, Any], *, but: Reader | None = None
    ) -> None:
        """Say something to all sockets of a person, but one."""
        self._tell_here(person, frame, but=but)
        await self._publish(keys.user_channel(*person), {"from": self.id, "frame": frame})

    def _tell_here(
        self, person: Person, frame: dict[str, Any], *, but: Reader | None = None
    ) -> None:
        for reader in list(self._people.get(person, ())):
            if reader is not but:
                reader.say(frame)

    async def _publish(self, channel: str, message: dict[str, Any]) -> None:
        try:
            await client().publish(channel, json.dumps(message))
        except (RedisError, OSError) as exc:
            logger.warning("other processes were not told: %s", type(exc).__name__)

    def _on_message(self, channel: str, message: dict[str, Any]) -> None:
        if channel == keys.CONTROL:
            self._on_control(message)
        elif message.get("from") != self.id and isinstance(message.get("frame"), dict):
            tenant, _, user = channel.removeprefix(f"{keys.PREFIX}user:").rpartition(":")
            self._tell_here((uuid.UUID(tenant), int(user)), message["frame"])

    def _on_control(self, message: dict[str, Any]) -> None:
        if "stop" in message:
            with suppress(ValueError):
                self.stop_here(uuid.UUID(message["stop"]))
        elif "signed_out" in message:
            for reader in list(self.readers):
                if session_mark(reader.session_key) == message["signed_out"]:
                    reader.refuse(SignedOut(SIGNED_OUT))

    # --- Upkeep ----------------------------------------------------------------------------

    def soon(self, work: Any) -> None:
        """Have a coroutine run by itself."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tick(self) -> None:
        while self.readers and not is_cancelled():
            await asyncio.sleep(_TICK_S)
            now = asyncio.get_running_loop().time()
            for reader in list(self.readers):
                reader.look(now)
            try:
                await self._look_after_mirrors()
            except Exception as exc:
                logger.error("mirrors could not be looked after: %s", type(exc).__name__)
                logger.debug("trace", exc_info=exc)

    async def _look_after_mirrors(self) -> None:
        """Catch up with answers that are silent, and end those whose process has died."""
        now = asyncio.get_running_loop().time()
        silent = [
            log
            for log in self.hub.mirrors.values()
            if not log.ended and now - self.hub.heard_at.get(log.answer_id, 0) > _SILENT_S
        ]
        for log in silent:
            self.hub.catch_up(log)
        held = await owning.look(log.owned for log in silent)
        for log in silent:
            if held[log.owned] == owning.Held.DEAD:
                await self._end_dead(log)

    async def _end_dead(self, log: AnswerLog) -> None:
        did = await recover(log.owned)
        await self.hub.caught_up(log)
        # Another process that ends it has still to write its last frame: a second look will tell.
        if not log.ended and (did or log.was_dead):
            log.break_off()  # it has ended, and the log does not say how
        log.was_dead = True


def session_mark(session_key: str | None) -> str:
    """A session's name among processes: the key itself is a secret."""
    return hashlib.sha256(f"chat:{session_key}".encode()).hexdigest()


def _before_shutdown(end: Callable[[], Any]) -> None:
    """Daphne cancels applications as it goes down, but knows nothing of other tasks."""
    reactor = sys.modules.get("twisted.internet.reactor")
    loop = asyncio.get_running_loop()
    if reactor is None or getattr(reactor, "_asyncioEventloop", None) is not loop:
        return
    from twisted.internet.defer import Deferred

    reactor.addSystemEventTrigger(
        "before", "shutdown", lambda: Deferred.fromFuture(asyncio.ensure_future(end()))
    )


_streams: PerLoop[Streams] = PerLoop(Streams, lambda streams: streams.close())


def current() -> Streams:
    """The running loop's."""
    return _streams.get()
