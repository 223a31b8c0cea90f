"""Stores that are away for a while: real connections, really refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from apps.gateway.redis import client
from ragsite.stack.postgres import APP_ROLE, SUPERUSER
from tests import parts


@asynccontextmanager
async def redis_away() -> AsyncIterator[None]:
    """The gateway's client of this event loop finds nobody at its port."""
    pool = client().connection_pool
    port = pool.connection_kwargs["port"]
    pool.connection_kwargs["port"] = 1
    for connection in pool._available_connections:
        connection.port = 1
    await pool.disconnect()
    try:
        yield
    finally:
        pool.connection_kwargs["port"] = port
        for connection in pool._available_connections:
            connection.port = port


@asynccontextmanager
async def postgres_away() -> AsyncIterator[None]:
    """The application's connections are broken and new ones refused, but the test's own."""
    await asyncio.to_thread(_shut)
    try:
        yield
    finally:
        await asyncio.to_thread(_open)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a store that is away waits for tenths of a second rather than seconds."""
    from apps.gateway.admission import admission, budget, rules

    monkeypatch.setattr(admission, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(budget, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(rules, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(_pool(), "timeout", 0.2)


def _shut() -> None:
    with superuser() as connection:
        _allow_connections(connection, allowed=False)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND usename = %s",
            [parts.DATABASE, APP_ROLE],
        )


def _open() -> None:
    with superuser() as connection:
        _allow_connections(connection, allowed=True)
    # It finds the broken ones out one request at a time otherwise.
    _pool().check()


def _pool() -> Any:
    return connections["default"].pool  # type: ignore[attr-defined]


def _allow_connections(connection: psycopg.Connection, *, allowed: bool) -> None:
    connection.execute(
        sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(
            sql.Identifier(parts.DATABASE), sql.Literal(allowed)
        )
    )


@contextmanager
def superuser(database: str = "postgres") -> Iterator[psycopg.Connection]:
    url = parts.postgres.url(SUPERUSER, database)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
