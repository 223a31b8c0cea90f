"""Whole days where the tenant is, whatever is asked for."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.http import QueryDict

from apps.ops.periods import LONGEST_DAYS, choose_period

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


def days(query: str, time_zone: str = "UTC", now: datetime = NOON) -> tuple[date, date]:
    period = choose_period(QueryDict(query), time_zone, now).period
    return period.first, period.last


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("", date(2026, 3, 1), date(2026, 3, 15)),
        ("period=this-month", date(2026, 3, 1), date(2026, 3, 15)),
        ("period=last-month", date(2026, 2, 1), date(2026, 2, 28)),
        ("period=7", date(2026, 3, 9), date(2026, 3, 15)),
        ("period=90", date(2025, 12, 16), date(2026, 3, 15)),
        ("period=own&from=2026-01-05&to=2026-01-05", date(2026, 1, 5), date(2026, 1, 5)),
        ("period=own&from=2026-03-10&to=9999-12-31", date(2026, 3, 10), date(2026, 3, 15)),
        ("period=own&from=2026-03-10", date(2026, 3, 10), date(2026, 3, 15)),
    ],
)
def test_a_choice_is_whole_days_until_today(query: str, first: date, last: date) -> None:
    assert days(query) == (first, last)


@pytest.mark.parametrize(
    "own",
    [
        *("from=&to=", "from=2026-13-01&to=2026-01-01", "from=2026-02-30&to=2026-03-01"),
        *("from=2026-03-10&to=2026-03-09", "from=2026-03-16&to=2026-03-20", "to=2026-03-01"),
        *("from=x' OR 1=1&to=%00", "from=２０２６-０１-０１&to=2026-01-02", "from=0000-01-01&to="),
        *("from=10000-01-01&to=10000-01-02", "from=-1&to=1e9", "from=9999-12-31&to=9999-12-31"),
    ],
)
def test_days_that_make_no_sense_are_said_and_this_month_is_shown(own: str) -> None:
    chosen = choose_period(QueryDict(f"period=own&{own}"), "UTC", NOON)
    assert "this month is shown" in chosen.note
    assert chosen.choice == "this-month"
    assert (chosen.period.first, chosen.period.last) == (date(2026, 3, 1), date(2026, 3, 15))


@pytest.mark.parametrize("first", ["0001-01-01", "1900-01-01", "2024-06-01"])
def test_too_many_days_are_cut_to_the_last_of_them(first: str) -> None:
    chosen = choose_period(QueryDict(f"period=own&from={first}&to=9999-12-31"), "UTC", NOON)
    assert (chosen.period.last - chosen.period.first).days == LONGEST_DAYS - 1
    assert chosen.period.last == NOON.date()
    assert f"More than {LONGEST_DAYS} days" in chosen.note


@pytest.mark.parametrize(
    ("time_zone", "now", "today"),
    [
        ("Asia/Kolkata", datetime(2026, 3, 31, 18, 29, tzinfo=UTC), date(2026, 3, 31)),
        ("Asia/Kolkata", datetime(2026, 3, 31, 18, 30, tzinfo=UTC), date(2026, 4, 1)),
        ("Pacific/Chatham", datetime(2026, 3, 31, 10, 15, tzinfo=UTC), date(2026, 4, 1)),
        ("America/New_York", datetime(2026, 11, 1, 3, 59, tzinfo=UTC), date(2026, 10, 31)),
    ],
)
def test_today_is_where_the_tenant_is(time_zone: str, now: datetime, today: date) -> None:
    assert days("", time_zone, now) == (today.replace(day=1), today)


@pytest.mark.parametrize("query", ["period=nonsense", "period=", "period=-7", "period=%00"])
def test_an_unknown_choice_is_this_month(query: str) -> None:
    assert days(query) == days("")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "1 March to 15 March 2026"),
        ("period=own&from=2026-01-05&to=2026-01-05", "5 January 2026"),
        ("period=90", "16 December 2025 to 15 March 2026"),
    ],
)
def test_the_days_are_said_and_linked(query: str, words: str) -> None:
    chosen = choose_period(QueryDict(query), "UTC", NOON)
    assert chosen.words == words
    assert choose_period(QueryDict(chosen.query), "UTC", NOON) == chosen
