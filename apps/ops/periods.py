"""Which days a page of figures is about: a choice of a list, or days of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import TypeVar
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils import timezone

from apps.gateway.ledger.days import Period, day_of

T = TypeVar("T")
CHOICES = (
    ("this-month", "This month"),
    ("last-month", "Last month"),
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
)
OWN = "own"
DEFAULT = "this-month"
LONGEST_DAYS = 400  # more than a year, so that a month can be held against that of last year
DAYS_AS_COLUMNS = 100  # of more, a chart shows months


@dataclass(frozen=True)
class Chosen:
    """What was asked for, as far as it made sense; `note` says what did not."""

    period: Period
    choice: str
    note: str = ""

    @property
    def query(self) -> str:
        """The same choice, for a link."""
        if self.choice != OWN:
            return urlencode({"period": self.choice})
        return urlencode({"period": OWN, "from": self.period.first, "to": self.period.last})

    @property
    def words(self) -> str:
        """ "1 November to 30 November 2026", or the one day."""
        first, last = self.period.first, self.period.last
        if first == last:
            return _day(first)
        return f"{_day(first, with_year=first.year != last.year)} to {_day(last)}"

    @property
    def file_part(self) -> str:
        return f"{self.period.first}_{self.period.last}"


@dataclass(frozen=True)
class Stretch:
    """What one column of a chart and one line of its table is about: a day, or a month."""

    first: date
    is_month: bool = False

    @property
    def anchor(self) -> str:
        """The id of its line in the table."""
        return f"day-{self.first.isoformat()}"

    @property
    def words(self) -> str:
        if self.is_month:
            return f"{self.first:%B} {self.first.year}"
        return f"{self.first:%a} {self.first.day} {self.first:%B}"

    @property
    def tick(self) -> str:
        return f"{self.first:%b} {self.first.year}" if self.is_month else f"{self.first:%-d %b}"


def in_stretches(days: Sequence[tuple[date, T]]) -> list[tuple[Stretch, list[T]]]:
    """What belongs to each day, given in order; of more than DAYS_AS_COLUMNS, to each month."""
    if len(days) <= DAYS_AS_COLUMNS:
        return [(Stretch(day), [value]) for day, value in days]
    months = groupby(days, key=lambda each: (each[0].year, each[0].month))
    parts = [list(part) for _, part in months]
    return [(Stretch(part[0][0], is_month=True), [value for _, value in part]) for part in parts]


def choose_period(asked: QueryDict, time_zone: str, now: datetime | None = None) -> Chosen:
    """The days that a page's address asks for, ending today at the latest, where the tenant is."""
    today = day_of(now or timezone.now(), time_zone)
    choice = asked.get("period", DEFAULT)
    if choice == OWN:
        return _own(asked.get("from", ""), asked.get("to", ""), today, time_zone)
    if choice not in dict(CHOICES):
        choice = DEFAULT
    return Chosen(Period(*_days_of(choice, today), time_zone), choice)


def _days_of(choice: str, today: date) -> tuple[date, date]:
    first_of_month = today.replace(day=1)
    if choice == "this-month":
        return first_of_month, today
    if choice == "last-month":
        last = first_of_month - timedelta(days=1)
        return last.replace(day=1), last
    return today - timedelta(days=int(choice) - 1), today


def _own(asked_first: str, asked_last: str, today: date, time_zone: str) -> Chosen:
    def instead(note: str) -> Chosen:
        return Chosen(Period(*_days_of(DEFAULT, today), time_zone), DEFAULT, note)

    first = _parse(asked_first)
    last = _parse(asked_last) if asked_last else today
    if first is None or last is None:
        return instead("These are not two dates, so this month is shown.")
    if last < first:
        return instead("The last day was before the first, so this month is shown.")
    if first > today:
        return instead("These days have not come yet, so this month is shown.")
    last = min(last, today)
    if (last - first).days < LONGEST_DAYS:
        return Chosen(Period(first, last, time_zone), OWN)
    first = last - timedelta(days=LONGEST_DAYS - 1)
    note = f"More than {LONGEST_DAYS} days can not be shown at once: these are the last of them."
    return Chosen(Period(first, last, time_zone), OWN, note)


def _parse(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _day(day: date, *, with_year: bool = True) -> str:
    return f"{day.day} {day:%B}" + (f" {day.year}" if with_year else "")
