"""The tenant scope: one short transaction in which row-level security shows one tenant's rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

# Kept on the connection, for the setting is the connection's: another thread has another one,
# even where it was given a copy of this one's context.
_ATTRIBUTE = "ragsite_tenant_id"


class ScopeError(RuntimeError):
    """A tenant scope was opened inside another tenant's scope."""


@contextmanager
def tenant_scope(tenant_id: uuid.UUID) -> Iterator[None]:
    """Open a transaction in which only `tenant_id`'s rows are visible and writable.

    Nesting the same tenant joins the outer transaction as a savepoint; nesting another tenant is
    a bug and refused. `set_config(..., true)` lasts until the transaction ends, so nothing can
    leak to the next borrower of a pooled connection; a session-level SET was measured to leak.
    """
    outer = current_tenant_id()
    if outer is not None and outer != tenant_id:
        raise ScopeError(f"scope of tenant {tenant_id} opened inside that of {outer}")
    within_a_transaction = connection.in_atomic_block
    with transaction.atomic():
        if outer is None:
            _set_tenant(str(tenant_id))
        setattr(connection, _ATTRIBUTE, tenant_id)
        try:
            yield
        finally:
            setattr(connection, _ATTRIBUTE, outer)
        if outer is None and within_a_transaction and not connection.needs_rollback:
            # In a wider transaction (a test, or a caller's atomic block) the setting would
            # outlive the scope: take it back. An exception does so by rolling back.
            _set_tenant("")


def current_tenant_id() -> uuid.UUID | None:
    """The tenant whose scope is open on this thread's connection, if any."""
    found: uuid.UUID | None = getattr(connection, _ATTRIBUTE, None)
    return found


def _set_tenant(value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('app.tenant', %s, true)", [value])
