"""Which answers are being written, and by somebody who lives: leases in Redis.

A process renews the leases of all its answers with one command. An answer without a lease (Redis
has lost it, or its process died before it had one) is given one in nobody's name: where somebody
writes it after all, the next renewal makes it theirs; where nobody does, it runs out.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable
from enum import StrEnum
from typing import Any

from redis.exceptions import RedisError

from apps.chat.streams.cancelling import is_cancelled
from apps.chat.streams.keys import OWNED, STOPS, Owned
from apps.gateway.redis import NOW, client, script

logger = logging.getLogger(__name__)

LEASE_S = 10.0
RENEW_S = 3.0  # two renewals may fail
_STOP_KEPT_S = 60

# KEYS: leases, stops. ARGV: lease ms, members. Replies with those that somebody wants stopped.
_RENEW = (
    NOW
    + """
local stopped = {}
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[i])
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) then
    redis.call('ZREM', KEYS[2], ARGV[i])
    stopped[#stopped + 1] = ARGV[i]
  end
end
return stopped
"""
)

# KEYS: leases. ARGV: lease ms, members. Replies, of each: 1 where its lease holds, 0 where not.
_LOOK = (
    NOW
    + """
local replies = {}
for i = 2, #ARGV do
  local until_ms = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if not until_ms then
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), ARGV[i])
    replies[#replies + 1] = 1
  else
    replies[#replies + 1] = tonumber(until_ms) > now and 1 or 0
  end
end
return replies
"""
)

# KEYS: leases. Replies with those that have run out.
_RUN_OUT = NOW + "return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 500)"

# KEYS: stops. ARGV: member, ms to remember it.
_ASK_TO_STOP = (
    NOW
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
)


class Held(StrEnum):
    """Whether somebody writes an answer."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"  # Redis is away


class Leases:
    """The leases of this process's answers."""

    def __init__(self, on_stop: Callable[[uuid.UUID], None]) -> None:
        self._on_stop = on_stop
        self._held: set[Owned] = set()
        self._task: asyncio.Task[None] | None = None
        self._others: set[asyncio.Task[None]] = set()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [*self._others, *([self._task] if self._task is not None else [])]

    def take(self, owned: Owned) -> None:
        """Hold an answer's lease from now on, as far as Redis is there."""
        self._held.add(owned)
        self._soon(self._renew())
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep(), name="chat-leases")

    def release(self, owned: Owned) -> None:
        self._held.discard(owned)
        self._soon(drop(owned))

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _keep(self) -> None:
        while self._held and not is_cancelled():
            await asyncio.sleep(RENEW_S)
            await self._renew()

    async def _renew(self) -> None:
        if not self._held:
            return
        args: list[str | int] = [int(LEASE_S * 1000), *map(_member, self._held)]
        try:
            stopped = await script(_RENEW)(keys=[OWNED, STOPS], args=args)
        except (RedisError, OSError) as exc:
            logger.warning("leases of answers were not renewed: %s", type(exc).__name__)
            return
        for member in stopped:
            self._on_stop(_owned(member)[1])


async def drop(owned: Owned) -> None:
    """Nobody writes that answer any more. One that Redis does not hear of runs out."""
    try:
        await client().zrem(OWNED, _member(owned))
    except (RedisError, OSError) as exc:
        logger.warning("a lease was not given back: %s", type(exc).__name__)


async def look(answers: Iterable[Owned]) -> dict[Owned, Held]:
    """Whether somebody writes each."""
    asked = list(answers)
    if not asked:
        return {}
    try:
        replies = await script(_LOOK)(
            keys=[OWNED], args=[int(LEASE_S * 1000), *map(_member, asked)]
        )
    except (RedisError, OSError):
        return dict.fromkeys(asked, Held.UNKNOWN)
    held = (Held.ALIVE if reply else Held.DEAD for reply in replies)
    return dict(zip(asked, held, strict=True))


async def run_out() -> list[Owned]:
    """Answers whose process died; none where Redis is away."""
    try:
        return [_owned(member) for member in await script(_RUN_OUT)(keys=[OWNED])]
    except (RedisError, OSError):
        return []


async def ask_to_stop(owned: Owned) -> None:
    """Have whichever process writes that answer hear of it with its next renewal at the latest."""
    args: list[str | int] = [_member(owned), _STOP_KEPT_S * 1000]
    try:
        await script(_ASK_TO_STOP)(keys=[STOPS], args=args)
    except (RedisError, OSError) as exc:
        logger.warning("a stop was not passed on: %s", type(exc).__name__)


def _member(owned: Owned) -> str:
    return f"{owned[0]}:{owned[1]}"


def _owned(member: bytes) -> Owned:
    tenant, _, answer = member.decode().partition(":")
    return uuid.UUID(tenant), uuid.UUID(answer)
