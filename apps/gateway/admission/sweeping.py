"""Ending the reservations of processes that have died."""

from __future__ import annotations

import logging
import uuid

from django.db import DatabaseError
from django.db.models.functions import Now

from apps.gateway.admission.budgets import release, settle_lost
from apps.gateway.admission.postgres import short_transaction
from apps.gateway.models import Reservation

logger = logging.getLogger(__name__)

_AT_ONCE = 1000


def sweep() -> int:
    """Book what was noted of them as lost and release the rest; returns how many.

    Reservations expire by the database's clock. One that cannot be ended stays, and is tried
    again with the next sweep.
    """
    expired = Reservation.objects.filter(expires_at__lt=Now()).order_by("expires_at")
    swept = sum(_sweep_one(found) for found in expired.values_list("id", flat=True)[:_AT_ONCE])
    if swept:
        logger.info("sweep: %d reservations of processes that died were ended", swept)
    return swept


def _sweep_one(reservation_id: uuid.UUID) -> bool:
    try:
        with short_transaction():
            # Held by another sweeper, or by a process that is settling after all: not ours.
            row = (
                Reservation.objects.select_for_update(skip_locked=True)
                .filter(id=reservation_id, expires_at__lt=Now())
                .first()
            )
            if row is not None:
                _end(row)
            return row is not None
    except DatabaseError as exc:
        logger.error("reservation %s was not swept: %s", reservation_id, type(exc).__name__)
        return False


def _end(row: Reservation) -> None:
    try:
        settle_lost(row)
    except (KeyError, TypeError, ValueError) as exc:
        # Written by another version of this code: what it holds must not stay reserved for that.
        kind = type(exc).__name__
        logger.error("request of reservation %s was not booked: %s", row.id, kind)
    release(row.id)
