"""Whether the parts the site can't work without answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import psycopg
import redis
from django.conf import settings

_TIMEOUT_S = 2


@dataclass(frozen=True)
class PartState:
    """One part: `error` is the kind of failure, never an address or a credential."""

    name: str
    ok: bool
    ms: float
    error: str = ""


def check_parts() -> list[PartState]:
    """Ask every part at the same time; takes at most a few seconds."""
    with ThreadPoolExecutor(max_workers=len(_PARTS)) as pool:
        return list(pool.map(_check, _PARTS))


def _check(name: str) -> PartState:
    start = perf_counter()
    try:
        _PARTS[name]()
    except (psycopg.Error, redis.RedisError, OSError, ValueError) as exc:
        return PartState(name, ok=False, ms=_ms_since(start), error=type(exc).__name__)
    return PartState(name, ok=True, ms=_ms_since(start))


def _ms_since(start: float) -> float:
    return round((perf_counter() - start) * 1000, 1)


def _ask_database() -> None:
    """On a connection of its own: a full pool is busy, not broken."""
    with psycopg.connect(
        settings.DATABASE_URL,
        connect_timeout=_TIMEOUT_S,
        options=f"-c statement_timeout={_TIMEOUT_S}s",
    ) as connection:
        connection.execute("SELECT 1")


def _ask_redis() -> None:
    with redis.Redis.from_url(
        settings.REDIS_URL, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S
    ) as client:
        client.ping()


_PARTS: dict[str, Callable[[], None]] = {"database": _ask_database, "redis": _ask_redis}
