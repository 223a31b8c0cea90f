"""Which process is making an answer: a lease in Redis, renewed while it works.

Without Redis every process makes its own. A lease that runs out while its process still works
costs a second call, never a wrong answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from enum import StrEnum

from apps.gateway.errors import StoreDown
from apps.gateway.redis import PREFIX, client, translated

logger = logging.getLogger(__name__)
LEASE_S = 6.0  # a killed process keeps others waiting for as long
RENEW_S = 2.0
# How long it is known that an answer was stored, for those who looked for it just before.
STORED_S = 5.0
_RELEASE_WITHIN_S = 0.5  # nobody's answer ends later than this for Redis's sake
_STORED = "stored"

# KEYS[1]: the answer's; ARGV: token, lease in ms, "1" where an answer "stored" was not found.
_TAKE = """
local held = redis.call('GET', KEYS[1])
if held == 'stored' and ARGV[3] ~= '1' then return 'stored' end
if held and held ~= 'stored' and held ~= ARGV[1] then return 'busy' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'ours'
"""
# ARGV: token, lease in ms.
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
# ARGV: token, ms for which to remember that the answer was stored, or "0".
_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], 'stored', 'PX', ARGV[2])
return 1
"""


class Taken(StrEnum):
    """What became of asking for a lease."""

    OURS = "ours"
    BUSY = "busy"  # another process is at it
    STORED = "stored"  # another has just finished: the answer can be read
    AWAY = "away"  # Redis cannot be asked


class Lease:
    """This process's turn at one answer."""

    def __init__(self, key: bytes) -> None:
        self._name = f"{PREFIX}flight:{key.hex()}"
        self._token = secrets.token_hex(8)
        self._renewing: asyncio.Task[None] | None = None

    async def take(self, *, stored_is_gone: bool = False) -> Taken:
        """Ask for the lease; with `stored_is_gone` also where an answer was stored just now."""
        arguments = [self._token, _ms(LEASE_S), "1" if stored_is_gone else "0"]
        try:
            reply = Taken((await self._run(_TAKE, arguments)).decode())
        except StoreDown:
            logger.warning("an answer is made without asking other processes: Redis is away")
            return Taken.AWAY
        if reply is Taken.OURS:
            self._renewing = asyncio.create_task(self._renew())
        return reply

    async def release(self, *, stored: bool) -> None:
        """Let others have it; they read the answer where one was stored."""
        if self._renewing is None:
            return
        self._renewing.cancel()
        arguments = [self._token, _ms(STORED_S) if stored else "0"]
        with contextlib.suppress(StoreDown, TimeoutError):  # it runs out by itself
            async with asyncio.timeout(_RELEASE_WITHIN_S):
                await self._run(_RELEASE, arguments)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            with contextlib.suppress(StoreDown):
                await self._run(_RENEW, [self._token, _ms(LEASE_S)])

    async def _run(self, script: str, arguments: list[str]) -> bytes:
        async with translated():
            reply: bytes = await client().eval(script, 1, self._name, *arguments)
            return reply


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
