"""A database as a release before left it, in place of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.core.management import call_command
from django.db import connections

from ragsite.stack.postgres import SUPERUSER
from tests import parts

DATABASE = "ragsite_old"


@contextmanager
def database_at(*migrations: tuple[str, str]) -> Iterator[None]:
    """For the block, both connections lead to a new database migrated to `migrations` only."""
    parts.postgres.ensure_database(DATABASE)
    with _pointed_to(DATABASE):
        call_command("prepare_database", verbosity=0)
        for app, name in migrations:
            migrate(app, name)
        yield
    with psycopg.connect(parts.postgres.url(SUPERUSER, "postgres"), autocommit=True) as db:
        db.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")  # type: ignore[arg-type]


def migrate(*target: str) -> None:
    """All of what is left to migrate, or as far as `target`."""
    call_command("migrate", *target, database="owner", verbosity=0)
    connections["owner"].close()


def as_superuser() -> psycopg.Connection[tuple[object, ...]]:
    """A connection that row-level security does not bind."""
    return psycopg.connect(parts.postgres.url(SUPERUSER, DATABASE), autocommit=True)


@contextmanager
def _pointed_to(database: str) -> Iterator[None]:
    names = {alias: connections[alias].settings_dict["NAME"] for alias in ("default", "owner")}
    try:
        for alias in names:
            _point(alias, database)
        yield
    finally:
        for alias, name in names.items():
            _point(alias, name)


def _point(alias: str, database: str) -> None:
    connection = connections[alias]
    connection.close()
    if getattr(connection, "pool", None) is not None:
        connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict["NAME"] = database
