"""Where a tenant's days and months begin, as aware UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def zone(name: str) -> ZoneInfo:
    """The time zone called `name`; UTC where there is none of that name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # ValueError: a path out of the zone folder; OSError: a folder's name, or one too long.
        return ZoneInfo("UTC")


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


def _local(at: datetime, time_zone: str) -> date:
    return at.astimezone(zone(time_zone)).date()


def _begin(day: date, time_zone: str) -> datetime:
    # Where midnight is skipped, fold=0 counts from before the change: the instant of the change,
    # which is the day's first. Where midnight comes twice, it is the first of the two.
    return datetime.combine(day, time(), zone(time_zone)).astimezone(UTC)
