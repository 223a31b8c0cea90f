"""Where a tenant's days and months begin, as aware UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.gateway.ledger.days import day_of as _local
from apps.gateway.ledger.days import day_start as _begin
from apps.gateway.ledger.days import zone_of as zone

__all__ = ["day_start", "month_start", "next_day", "next_month", "zone"]


def day_start(at: datetime, time_zone: str) -> datetime:
    """The first instant of the day that `at` is in."""
    return _begin(_local(at, time_zone), time_zone)


def month_start(at: datetime, time_zone: str) -> datetime:
    """The first instant of the month that `at` is in."""
    return _begin(_local(at, time_zone).replace(day=1), time_zone)


def next_day(at: datetime, time_zone: str) -> datetime:
    """The first instant of the day after."""
    return _begin(_local(at, time_zone) + timedelta(days=1), time_zone)


def next_month(at: datetime, time_zone: str) -> datetime:
    """The first instant of the month after."""
    # 32 days after its first is in the next month, whichever it is.
    later = _local(at, time_zone).replace(day=1) + timedelta(days=32)
    return _begin(later.replace(day=1), time_zone)
