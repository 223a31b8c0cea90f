"""Days and months begin where the tenant is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apps.gateway.admission.windows import day_start, month_start, next_day, next_month, zone


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("time_zone", "at", "begin", "hours"),
    [
        ("UTC", "2026-11-30T23:59:59", "2026-11-30T00:00", 24),
        ("Europe/Berlin", "2026-11-30T23:00", "2026-11-30T23:00", 24),
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", 23),
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", 25),
        ("Asia/Kolkata", "2026-06-01T18:29", "2026-05-31T18:30", 24),
        ("Asia/Kathmandu", "2026-06-01T12:00", "2026-05-31T18:15", 24),
        ("Pacific/Kiritimati", "2026-06-01T12:00", "2026-06-01T10:00", 24),
        # Half an hour is put forward and back.
        ("Australia/Lord_Howe", "2026-10-04T03:00", "2026-10-03T13:30", 23.5),
        # Midnight is skipped: the day begins at one o'clock.
        ("America/Sao_Paulo", "2018-11-04T12:00", "2018-11-04T03:00", 23),
        ("Africa/Cairo", "2024-04-26T12:00", "2024-04-25T22:00", 23),
        # Midnight comes twice: the day begins with the first.
        ("America/Havana", "2025-11-02T12:00", "2025-11-02T04:00", 25),
        # The island jumped over a whole day.
        ("Pacific/Apia", "2011-12-30T09:00", "2011-12-29T10:00", 24),
    ],
)
def test_a_day_begins_where_the_tenant_is(
    time_zone: str, at: str, begin: str, hours: float
) -> None:
    assert day_start(utc(at), time_zone) == utc(begin)
    assert next_day(utc(at), time_zone) == utc(begin) + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("time_zone", "at", "begin", "end"),
    [
        ("UTC", "2024-02-29T12:00", "2024-02-01T00:00", "2024-03-01T00:00"),
        ("UTC", "2026-12-31T23:59:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("Europe/Berlin", "2026-10-31T22:59", "2026-09-30T22:00", "2026-10-31T23:00"),
        ("Europe/Berlin", "2026-10-31T23:00", "2026-10-31T23:00", "2026-11-30T23:00"),
        ("Pacific/Apia", "2026-02-28T10:59", "2026-01-31T11:00", "2026-02-28T11:00"),
    ],
)
def test_a_month_begins_where_the_tenant_is(time_zone: str, at: str, begin: str, end: str) -> None:
    assert month_start(utc(at), time_zone) == utc(begin)
    assert next_month(utc(at), time_zone) == utc(end)


@pytest.mark.parametrize(
    "name", ["", "Europe/Atlantis", "../../etc/passwd", "/etc/passwd", "Europe", "x" * 5000, "\0"]
)
def test_a_zone_that_does_not_exist_is_utc(name: str) -> None:
    assert zone(name).key == "UTC"


@pytest.mark.parametrize(
    "time_zone", ["America/Sao_Paulo", "Asia/Beirut", "Africa/Casablanca", "America/Santiago"]
)
def test_days_follow_one_another_without_gap_or_overlap(time_zone: str) -> None:
    at = utc("2015-01-01T12:00")
    for _ in range(2000):
        following = next_day(at, time_zone)
        assert day_start(at, time_zone) <= at < following
        assert day_start(following, time_zone) == following
        assert day_start(following - timedelta(microseconds=1), time_zone) == day_start(
            at, time_zone
        )
        at += timedelta(days=1)
