"""The gateway's connection to Redis: one client an event loop, faults translated once.

What is kept there is short-lived: rates, places at upstreams, breakers. Nothing that Redis loses
is money; while it is away, calls are refused.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from django.conf import settings
from django.utils.translation import gettext
from redis import Redis as BlockingRedis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

from apps.gateway.errors import StoreDown
from apps.inference.per_loop import PerLoop

PREFIX = "ragsite:gw:"
# Begins a script: `now` is the time of Redis in ms. The clocks of the processes have no part in it.
NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_TIMEOUT_S = 2.0


# A command takes a fraction of a millisecond: more at once wait for a connection, where redis-py's
# own pool would refuse the 101st.
_CONNECTIONS = 32
# For one of them: a process that is busy is not one whose Redis is away.
_WAIT_S = 5.0


def _client() -> Redis:
    pool = BlockingConnectionPool.from_url(
        settings.REDIS_URL or "redis://127.0.0.1:1/0",
        max_connections=_CONNECTIONS,
        timeout=_WAIT_S,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        # Once more, for a connection that was closed meanwhile; by default it waits for seconds.
        retry=Retry(NoBackoff(), 1),
    )
    return Redis.from_pool(pool)


_clients: PerLoop[Redis] = PerLoop(_client, Redis.aclose)


def client() -> Redis:
    """The running loop's client."""
    return _clients.get()


async def _drop(scripts: dict[str, AsyncScript]) -> None:
    scripts.clear()


_scripts: PerLoop[dict[str, AsyncScript]] = PerLoop(dict, _drop)


def script(text: str) -> AsyncScript:
    """A script of the running loop's client. Its hash is made once, not at every call."""
    scripts = _scripts.get()
    if text not in scripts:
        scripts[text] = client().register_script(text)
    return scripts[text]


def blocking(timeout_s: float = _TIMEOUT_S) -> BlockingRedis:
    """A connection for synchronous code, to be closed with its block."""
    return BlockingRedis.from_url(
        settings.REDIS_URL or "redis://127.0.0.1:1/0",
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
    )


def replace_word(key: str) -> bool:
    """A new random word at `key`, so that what processes keep under the old one holds no longer.

    Synchronous, to be called after a commit. False where Redis is away.
    """
    try:
        with blocking() as connection:
            connection.set(key, uuid.uuid4().hex)
    except (RedisError, OSError):
        return False
    return True


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Redis's faults as StoreDown."""
    try:
        yield
    except (RedisError, OSError) as exc:
        raise StoreDown(
            gettext(
                "The store of limits cannot be reached, so nothing is let through that could "
                "overrun them. Try again in a moment."
            )
        ) from exc
