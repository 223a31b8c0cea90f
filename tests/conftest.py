"""Fixtures every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pytest_django import DjangoDbBlocker

from ragsite.stack.postgres import APP_ROLE, SUPERUSER
from tests import parts
from tests.cast import _fast_passwords, cast  # noqa: F401 - fixtures
from tests.real_parts import encoder_url, engine_url  # noqa: F401 - fixtures
from tests.running_stack import stack  # noqa: F401 - fixture


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Migrate as the owner; the tests themselves run as the application role."""
    from django.core.management import call_command
    from django.db import connections

    with django_db_blocker.unblock():
        call_command("prepare_database", verbosity=0)
        call_command("migrate", database="owner", verbosity=0)
        connections["owner"].close()
        _let_the_app_role_truncate()
        _truncate_vectors_too()
        yield
        connections["default"].close()
        connections["default"].close_pool()  # type: ignore[attr-defined]


def _truncate_vectors_too() -> None:
    """Django looks for tables in the schema `public` alone; vectors are in another."""
    from django.db import connections

    for connection in connections.all():
        flush = connection.ops.sql_flush

        def flush_all(
            style: Any, tables: list[str], flush: Any = flush, **options: Any
        ) -> list[str]:
            return flush(style, [*tables, '"search"."chunkvector"'], **options)  # type: ignore[no-any-return]

        connection.ops.sql_flush = flush_all  # type: ignore[method-assign]


def _let_the_app_role_truncate() -> None:
    """Tests that commit are cleaned up by TRUNCATE; the site's role has no such right."""
    url = parts.postgres.url(SUPERUSER, parts.DATABASE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"GRANT TRUNCATE ON ALL TABLES IN SCHEMA public TO {APP_ROLE}")


@pytest.fixture(autouse=True)
def _no_catalogue_of_another_test() -> Iterator[None]:
    """Rows are rolled back; what was read of them is not."""
    from apps.gateway.calling import catalogue

    catalogue.forget()
    yield
    catalogue.forget()
