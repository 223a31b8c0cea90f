"""A tenant's days as moments: the same for the figures as for the budgets' windows.

Computed here and not in the database, whose list of time zones may be another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@dataclass(frozen=True)
class Period:
    """Whole days, both included, where the tenant is (UTC for operations)."""

    first: date
    last: date
    time_zone: str = "UTC"

    @property
    def days(self) -> list[date]:
        """Each of them, in order; none where the last comes before the first."""
        count = (self.last - self.first).days + 1
        return [self.first + timedelta(days=n) for n in range(count)]

    @property
    def begins(self) -> datetime:
        return day_start(self.first, self.time_zone)

    @property
    def ends(self) -> datetime:
        """The first moment after it."""
        return day_start(self.last + timedelta(days=1), self.time_zone)


def zone_of(time_zone: str) -> ZoneInfo:
    """The zone of that name; UTC where there is none."""
    try:
        return ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # ValueError: a path out of the zone folder; OSError: a folder's name, or one too long.
        return ZoneInfo("UTC")


def day_start(day: date, time_zone: str) -> datetime:
    """When a day begins, in UTC.

    Where clocks skip midnight, fold=0 counts from before the change: the moment at which they do.
    Where midnight comes twice, it is the first of the two.
    """
    return datetime.combine(day, time(), zone_of(time_zone)).astimezone(UTC)


def day_of(moment: datetime, time_zone: str) -> date:
    """The day that it is there."""
    return moment.astimezone(zone_of(time_zone)).date()


def month_of(moment: datetime, time_zone: str) -> Period:
    """The month that it is there."""
    first = day_of(moment, time_zone).replace(day=1)
    next_month = (first + timedelta(days=32)).replace(day=1)
    return Period(first, next_month - timedelta(days=1), time_zone)


def bounds(period: Period) -> list[datetime]:
    """When each day begins, and when the last ends: for `width_bucket`, whose n-th bucket is then
    the n-th day."""
    return [*_starts(period), period.ends]


def _starts(period: Period) -> Iterator[datetime]:
    return (day_start(day, period.time_zone) for day in period.days)
