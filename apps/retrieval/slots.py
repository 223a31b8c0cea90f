"""Partitions of the vectors' table: slot 0 is all tenants' together, any other one index's own.

An index in a partition of its own is dropped with the partition, and leaves nothing to vacuum.
The schema is the application role's, so workers make and drop partitions. Both take locks on the
tables that vectors point to; they are asked for briefly and again, so that questions, which would
queue behind such a lock, wait for a fifth of a second at most.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
from django.conf import settings
from django.db import OperationalError, connection, transaction

from apps.retrieval.errors import RetrievalError
from apps.retrieval.models import EmbeddingIndex

SHARED = 0
_LOCK_TIMEOUT_MS = 200
_ATTEMPTS = 30
_PAUSE_S = 0.5
_TAKE = "SELECT pg_advisory_xact_lock(hashtextextended('search.chunkvector', 0))"
# Smallest number that no index has. A partition that an index left behind does not count as free.
_FREE = """
    SELECT min(number) FROM generate_series(1, 32767) AS number
    WHERE number NOT IN (SELECT slot FROM retrieval_embeddingindex)
        AND to_regclass('search.chunkvector_' || number) IS NULL
"""
_PARTITIONS = r"""
    SELECT substring(relname FROM '\d+$')::int FROM pg_class
    WHERE relnamespace = 'search'::regnamespace AND relkind = 'r'
        AND relname ~ '^chunkvector_[1-9]\d*$'
"""
_ATTACHED = """
    SELECT EXISTS (SELECT FROM pg_inherits
        WHERE inhrelid = to_regclass(%s) AND inhparent = 'search.chunkvector'::regclass)
"""
_REMOVE_BATCH = 5000


class PartitionBusy(RetrievalError):
    """The tables were in use whenever the partition was to be made or dropped."""

    code = "partition_busy"
    retryable = True

    def __init__(self) -> None:
        super().__init__("The search tables are too busy to be changed. It is tried again.")


def choose_slot(*, chunk_count: int) -> int:
    """A slot for an index of so many chunks, in the open transaction that creates the index.

    Large ones get one of their own: those that exact search is not for. Slots are chosen one after
    another, under a lock that the transaction keeps to its end.
    """
    if chunk_count <= settings.HNSW_ABOVE_CHUNKS:
        return SHARED
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        cursor.execute(_FREE)
        return int(cursor.fetchone()[0])


def ensure_partition(slot: int, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Make the partition of a slot where it is not there yet. Raises PartitionBusy."""
    if slot != SHARED and not _is_attached(slot):
        _patiently(lambda: _make(slot), sleep)


def drop_partition(slot: int, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Drop the partition of a slot with all that is in it, where it is there. Raises PartitionBusy.

    No index may be using it any more.
    """
    if slot != SHARED:
        _patiently(lambda: _drop(slot), sleep)


def drop_unused(*, sleep: Callable[[float], None] = time.sleep) -> list[int]:
    """Drop the partitions that no index has: their tenant was deleted. The slots they had."""
    kept = set(EmbeddingIndex.objects.filter(slot__gt=SHARED).values_list("slot", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(_PARTITIONS)
        unused = sorted({int(row[0]) for row in cursor.fetchall()} - kept)
    for slot in unused:
        with suppress(PartitionBusy):
            drop_partition(slot, sleep=sleep)
    return unused


def remove_rows(index: EmbeddingIndex, *, go_on: Callable[[], None]) -> int:
    """Delete an index's vectors from the shared partition, a batch a transaction; how many.

    `go_on` is called before each batch, and ends it by raising.
    """
    removed = 0
    while True:
        go_on()
        with connection.cursor() as cursor:
            cursor.execute(
                """
                DELETE FROM search.chunkvector WHERE slot = %s AND id IN (
                    SELECT id FROM search.chunkvector
                    WHERE tenant_id = %s AND index_id = %s AND slot = %s LIMIT %s)
                    AND tenant_id = %s AND index_id = %s
                """,
                [
                    *(index.slot, index.tenant_id, index.id, index.slot, _REMOVE_BATCH),
                    *(index.tenant_id, index.id),
                ],
            )
            if not cursor.rowcount:
                return removed
            removed += cursor.rowcount


def vacuum_shared() -> None:
    """Make room that was deleted in the shared partition usable again.

    Not possible within a transaction: there, autovacuum will do it.
    """
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE) search.chunkvector_0")


def _is_attached(slot: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_ATTACHED, [_name(slot)])
        return bool(cursor.fetchone()[0])


def _make(slot: int) -> None:
    """Beside the table first, then attached: that locks out neither readers nor writers."""
    name = _name(slot)
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        if _is_attached(slot):  # another worker was quicker
            return
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"CREATE TABLE {name} (LIKE search.chunkvector INCLUDING DEFAULTS)")
        cursor.execute(f"ALTER TABLE {name} ADD CHECK (slot = {int(slot)})")
        cursor.execute(
            f"ALTER TABLE search.chunkvector ATTACH PARTITION {name} FOR VALUES IN ({int(slot)})"
        )


def _drop(slot: int) -> None:
    name = _name(slot)
    with connection.cursor() as cursor:
        cursor.execute(_TAKE)
        if _is_attached(slot):
            cursor.execute(f"ALTER TABLE search.chunkvector DETACH PARTITION {name}")
        cursor.execute(f"DROP TABLE IF EXISTS {name}")


def _name(slot: int) -> str:
    return f"search.chunkvector_{int(slot)}"


def _patiently(change: Callable[[], None], sleep: Callable[[float], None]) -> None:
    for _ in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT_MS}ms'")
                change()
            return
        except OperationalError as exc:
            if not isinstance(exc.__cause__, psycopg.errors.LockNotAvailable):
                raise
        # Not in step with whoever held the lock.
        sleep(_PAUSE_S * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret
    raise PartitionBusy
