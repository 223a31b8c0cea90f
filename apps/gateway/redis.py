"""The gateway's connection to Redis: one client an event loop, faults translated once.

What is kept there is short-lived: rates, places at upstreams, breakers. Nothing that Redis loses
is money; while it is away, calls are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from apps.gateway.errors import StoreDown

PREFIX = "ragsite:gw:"
_TIMEOUT_S = 2.0
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Redis] = WeakKeyDictionary()


def client() -> Redis:
    """The running loop's client."""
    loop = asyncio.get_running_loop()
    found = _clients.get(loop)
    if found is None:
        found = _clients[loop] = Redis.from_url(
            settings.REDIS_URL or "redis://127.0.0.1:1/0",
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
        )
    return found


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Redis's faults as StoreDown."""
    try:
        yield
    except (RedisError, OSError) as exc:
        raise StoreDown(
            "The store of limits cannot be reached, so nothing is let through that could overrun "
            "them. Try again in a moment."
        ) from exc
