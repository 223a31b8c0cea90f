"""Adding the ledger to the rollups: every row once, whatever else is being written.

A row is in them if its id is not above the mark. The mark moves with the sums, in one
transaction, and only to an id below which nothing is still being written.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from apps.gateway.ledger import summing
from apps.gateway.ledger.counters import different_counters, recount
from apps.gateway.models import (
    LedgerConversation,
    LedgerDay,
    LedgerEntry,
    LedgerHour,
    RollupMark,
    RollupZone,
)
from apps.tenants.models import Tenant

# How long those who settle may have to wait for the roller, which waits for the slowest of them.
_LOCK_TIMEOUT_MS = 50
_PAUSE_S = 0.1
_TRIES = 20


class Busy(Exception):
    """Somebody was writing to the ledger all the time: nothing was added; the next run will."""

    code = "ledger_busy"


def roll_up() -> int:
    """Add what has come since. Returns how many rows. Raises Busy."""
    upto, added = settled_id(), 0
    while True:
        with _held_mark() as mark:
            moved = _follow_zones(mark)
            # A pause of hours is caught up in pieces, each in a transaction of its own.
            added += _advance(mark, min(upto, mark.upto_id + summing.BATCH))
        # Again: what was in flight when they moved has been counted in their old windows. Apart
        # from the sums, which take seconds: settlements wait for the counters.
        for tenant in moved:
            recount(tenant)
        if mark.upto_id >= upto:
            return added


def rebuild() -> int:
    """Derive everything again, in one transaction: pages show the old figures until it ends.

    Of the running windows' counters, those of tenants whose counters differ.

    Returns how many rows of the ledger are in it. Raises Busy.
    """
    upto = settled_id()
    with _held_mark() as mark:
        for table in (LedgerDay, LedgerHour, LedgerConversation, RollupZone):
            table.objects.all().delete()
        mark.upto_id = 0
        added = _advance(mark, upto)
    differing = {each.tenant_id for each in different_counters()}
    for tenant in Tenant.objects.filter(id__in=differing):
        recount(tenant)
    return added


def settled_id() -> int:
    """An id up to which the ledger is complete: whoever writes now will get a higher one."""
    for _ in range(_TRIES):
        try:
            return _settled_id()
        except OperationalError as exc:
            if not isinstance(exc.__cause__, LockNotAvailable):
                raise
            time.sleep(_PAUSE_S)
    raise Busy(f"the ledger was being written to in each of {_TRIES} moments")


def _follow_zones(mark: RollupMark) -> list[Tenant]:
    """Sum the days of tenants again whose time zone is another one by now; which these are."""
    moved = []
    zones = dict(RollupZone.objects.values_list("tenant_id", "time_zone"))
    for tenant in Tenant.objects.filter(id__in=zones).only("id", "time_zone"):
        if tenant.time_zone != zones[tenant.id]:
            LedgerDay.objects.filter(tenant_id=tenant.id).delete()
            LedgerConversation.objects.filter(tenant_id=tenant.id).delete()
            RollupZone.objects.filter(tenant_id=tenant.id).update(time_zone=tenant.time_zone)
            for span in summing.Span(0, mark.upto_id).pieces():
                summing.add_days(span, [tenant.id], tenant.time_zone)
            moved.append(tenant)
    return moved


def _settled_id() -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{_LOCK_TIMEOUT_MS}ms"])
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('gateway_ledgerentry', 0))")
        # A statement of its own: its snapshot is taken after the lock was.
        cursor.execute("SELECT coalesce(max(id), 0) FROM gateway_ledgerentry")
        return int(cursor.fetchone()[0])


@contextmanager
def _held_mark() -> Iterator[RollupMark]:
    """One roller at a time."""
    with transaction.atomic():
        yield RollupMark.objects.select_for_update().get_or_create(id=1)[0]


def _advance(mark: RollupMark, upto: int) -> int:
    """Add the rows above the mark up to `upto`, and move the mark there."""
    if upto <= mark.upto_id:
        return 0
    whole = summing.Span(mark.upto_id, upto)
    for span in whole.pieces():
        summing.add(span, _zones(span))
    mark.upto_id = upto
    mark.save(update_fields=["upto_id"])
    return LedgerEntry.objects.filter(id__gt=whole.after, id__lte=upto).count()


def _zones(span: summing.Span) -> dict[uuid.UUID, str]:
    """The time zones of the tenants that have rows there; noted for those that had none before."""
    rows = LedgerEntry.objects.filter(id__gt=span.after, id__lte=span.upto)
    tenants = list(rows.order_by().values_list("tenant_id", flat=True).distinct())
    known = dict(
        RollupZone.objects.filter(tenant_id__in=tenants).values_list("tenant_id", "time_zone")
    )
    now = dict(Tenant.objects.filter(id__in=tenants).values_list("id", "time_zone"))
    # Of a tenant that is gone the ledger remains.
    new = {each: now.get(each, "UTC") for each in tenants if each not in known}
    RollupZone.objects.bulk_create(
        RollupZone(tenant_id=each, time_zone=zone) for each, zone in new.items()
    )
    return {**known, **new}
