"""What a check says, and the moment it looks at."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction

from apps.tenants.scope import tenant_scope


@dataclass(frozen=True)
class Options:
    """How a check looks."""

    deep: bool = False  # read every stored file and vector, too
    grace_s: float = 3600.0  # a file may be this old before its row must be there


@dataclass(frozen=True)
class Finding:
    """Something that should not be. Nothing of a document's text or name is in it.

    `repair` looks again, under the locks that ingestion takes, and makes it right in a transaction
    of its own; False where it could not. It may run any number of times, and while others work: a
    finding that has become true in the meantime is left alone. None: only a person can repair it.
    """

    kind: str
    subject: str  # a document's or collection's id, or the key of a stored file
    words: str
    tenant_id: uuid.UUID | None = None
    repair: Callable[[], bool] | None = None


Check = Callable[[uuid.UUID, Options], Iterator[Finding]]


@contextmanager
def snapshot(tenant_id: uuid.UUID) -> Iterator[None]:
    """The tenant's scope with everything read in it as of one moment.

    Of a document that becomes ready meanwhile, a check sees all or nothing. Nothing can be written.
    """
    with transaction.atomic():
        # Where a wider transaction is open (a test's), its own isolation has to do.
        if not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with tenant_scope(tenant_id), connection.cursor() as cursor:
            # Whole tables are joined, maybe before PostgreSQL has counted them: one wrong guess,
            # and it goes through a table once for each row of another.
            cursor.execute("SET LOCAL enable_nestloop = off")
            yield
