"""Telling a caller that waits for a place how far it is in line.

Each process knows the order of its own calls, and from Redis how many of the others' wait as well.
Whose turn it is among processes is chance, so a place is known only while no other has any.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

from apps.gateway.errors import StoreDown
from apps.gateway.redis import NOW, PREFIX, script, translated

TELL_EVERY_S = 1.0
# What a process that died has said is forgotten.
_HOLDS_MS = 4000


@dataclass(frozen=True)
class InLine:
    """Where a call stands."""

    place: int | None  # how many are before it; None: not known
    of: int | None  # how many wait in all, this one included


Listener = Callable[[InLine], None]

_listener: ContextVar[Listener | None] = ContextVar("waiting_listener", default=None)

# KEYS: who waits, a hash. ARGV: process, how many of its calls, ms that this holds.
# Replies with how many wait in all.
_COUNT = (
    NOW
    + """
if tonumber(ARGV[2]) > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. string.format('%d', now + ARGV[3]))
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('HDEL', KEYS[1], ARGV[1])
end
local waiting = 0
local said = redis.call('HGETALL', KEYS[1])
for i = 1, #said, 2 do
  local count, until_ms = string.match(said[i + 1], '^(%d+):(%d+)$')
  if tonumber(until_ms) > now then
    waiting = waiting + tonumber(count)
  else
    redis.call('HDEL', KEYS[1], said[i])
  end
end
return waiting
"""
)


@contextmanager
def telling_of_waits(listener: Listener) -> Iterator[None]:
    """Have `listener` told, once a second, while a call in this context waits for a place."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        # Closed from another context (a generator that is finalised), there is nothing to undo.
        with suppress(ValueError):
            _listener.reset(token)


@dataclass
class Waiters:
    """The calls of this process in one line, first come first."""

    name: str
    process: str = field(default_factory=lambda: uuid.uuid4().hex)
    _waiting: dict[int, Listener | None] = field(default_factory=dict)
    _number: int = 0
    _task: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block waits in this line."""
        self._number += 1
        number = self._number
        self._waiting[number] = _listener.get()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._tell_all())
        try:
            yield
        finally:
            del self._waiting[number]

    async def _tell_all(self) -> None:
        """Tell the first in line too: it still waits. Ends, and says so, when nobody waits."""
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            of = await self._count()
            own = len(self._waiting)
            for before, listener in enumerate(list(self._waiting.values())):
                if listener is not None:
                    listener(InLine(before if of == own else None, of))
            if not self._waiting:
                return

    async def _count(self) -> int | None:
        args: list[str | int] = [self.process, len(self._waiting), _HOLDS_MS]
        try:
            async with translated():
                return int(await script(_COUNT)(keys=[f"{PREFIX}waiting:{self.name}"], args=args))
        except StoreDown:
            return None
