"""PostgreSQL as the admission needs it: nothing waits for long, and its absence is said so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils.translation import gettext

from apps.gateway.errors import StoreDown

LOCK_TIMEOUT_MS = 2_000
_STATEMENT_TIMEOUT_MS = 5_000


@contextmanager
def stored() -> Iterator[None]:
    """PostgreSQL's absence, its time limits and those of who waits for it, as StoreDown."""
    try:
        yield
    except (OperationalError, InterfaceError, TimeoutError) as exc:
        raise StoreDown(
            gettext(
                "The store of budgets cannot be reached, so nothing is let through that could "
                "overrun them. Try again in a moment."
            )
        ) from exc


@contextmanager
def short_transaction() -> Iterator[None]:
    """A transaction that gives up rather than hangs; raises StoreDown."""
    with stored(), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true),"
                " set_config('statement_timeout', %s, true)",
                [str(LOCK_TIMEOUT_MS), str(_STATEMENT_TIMEOUT_MS)],
            )
        yield
