"""One moment for all reads of a search."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from apps.tenants.scope import tenant_scope


@contextmanager
def snapshot(tenant_id: uuid.UUID) -> Iterator[None]:
    """The tenant's scope with everything read in it as of one moment; nothing can be written.

    Of a document whose next version becomes ready meanwhile, a search sees one version alone.
    """
    with transaction.atomic():
        # Where a wider transaction is open (a test's), its own isolation has to do.
        if not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with tenant_scope(tenant_id):
            yield
