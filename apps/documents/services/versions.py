"""Saying that what may be found in a collection has changed, where no document has."""

from __future__ import annotations

import uuid

from django.db import connection


def raise_version(*, tenant_id: uuid.UUID, collection_id: uuid.UUID) -> None:
    """In the open transaction, which writes what is found. Changes to documents do it themselves.

    Waits for nobody, so it may be called at any point of a transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT documents_raise_version(%s, %s)", [tenant_id, collection_id])
