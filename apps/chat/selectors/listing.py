"""One's own conversations as the page lists them: pinned, in folders, then by day and month."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from apps.chat.models import Conversation, Folder
from apps.chat.selectors.conversations import conversations_of
from apps.tenants.access import Access

PAGE = 50
# Of a folder, and of pinned ones: lists that a person has made by hand.
MOST_FILED = 500
MOST_SHOWN = 2000  # of a list that is fetched anew after someone has scrolled far


@dataclass(frozen=True)
class Section:
    """Conversations under one heading."""

    key: str
    title: str
    conversations: tuple[Conversation, ...]


@dataclass(frozen=True)
class FolderView:
    """A folder, and what it holds where it is open."""

    folder: Folder
    count: int
    is_open: bool
    conversations: tuple[Conversation, ...]

    @property
    def hidden_count(self) -> int:
        """What an open folder holds beyond what it shows."""
        return self.count - len(self.conversations) if self.is_open else 0


@dataclass(frozen=True)
class Cursor:
    """The last conversation shown; the next page goes on below it."""

    at: datetime
    id: uuid.UUID

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.id}"

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        at, _separator, identifier = text.partition("~")
        try:
            parsed = cls(datetime.fromisoformat(at), uuid.UUID(identifier))
        except ValueError:
            return None
        return parsed if parsed.at.tzinfo else None


@dataclass(frozen=True)
class Page:
    """Conversations below one another by date; `after` leads to the next page."""

    sections: tuple[Section, ...]
    continues: str  # the key of the section that the page before ended in
    after: Cursor | None
    is_archive: bool = False


@dataclass(frozen=True)
class Listing:
    """The whole list as it is shown first."""

    pinned: tuple[Conversation, ...]
    folders: tuple[FolderView, ...]
    page: Page
    archived_count: int
    is_archive: bool

    @property
    def is_empty(self) -> bool:
        return not (self.pinned or self.folders or self.page.sections or self.archived_count)


def list_conversations(
    access: Access,
    *,
    open_folders: Collection[str] = (),
    at_least: int = PAGE,
    archive: bool = False,
) -> Listing:
    """The list, in the tenant's scope; `open_folders` by their ids.

    `at_least` so many are shown by date, where the list is fetched anew after someone has scrolled.
    """
    own = conversations_of(access)
    archived = own.filter(archived_at__isnull=False)
    if archive:
        page = _page(access, archived, size=_bounded(at_least), archive=True)
        return Listing((), (), page, 0, is_archive=True)
    listed = own.filter(archived_at=None)
    return Listing(
        pinned=tuple(listed.filter(pinned_at__isnull=False).order_by("-pinned_at")[:MOST_FILED]),
        folders=tuple(_folders(access, listed, open_folders)),
        page=_page(access, _loose(listed), size=_bounded(at_least)),
        archived_count=archived.count(),
        is_archive=False,
    )


def next_page(access: Access, after: Cursor | None, *, archive: bool = False) -> Page:
    """The conversations below `after`, by date."""
    own = conversations_of(access)
    rows = (
        own.filter(archived_at__isnull=False) if archive else _loose(own.filter(archived_at=None))
    )
    return _page(access, rows, after=after, archive=archive)


def folder_contents(access: Access, folder: Folder) -> tuple[Conversation, ...]:
    """What an open folder shows. Pinned ones are listed above all folders."""
    listed = conversations_of(access).filter(archived_at=None, pinned_at=None, folder=folder)
    return tuple(listed[:MOST_FILED])


def folders_of(access: Access) -> QuerySet[Folder]:
    """One's own folders, by name."""
    return Folder.objects.filter(tenant=access.tenant, user=access.user).order_by("name", "id")


def get_folder(access: Access, folder_id: uuid.UUID) -> Folder | None:
    """One's own folder, or None."""
    return folders_of(access).filter(id=folder_id).first()


def _loose(listed: QuerySet[Conversation]) -> QuerySet[Conversation]:
    return listed.filter(pinned_at=None, folder=None)


def _folders(
    access: Access, listed: QuerySet[Conversation], opened: Collection[str]
) -> Iterable[FolderView]:
    filed = listed.filter(pinned_at=None, folder__isnull=False).order_by()
    counts = dict(filed.values_list("folder_id").annotate(Count("id")))
    for folder in folders_of(access):
        is_open = str(folder.id) in opened
        contents = folder_contents(access, folder) if is_open else ()
        yield FolderView(folder, counts.get(folder.id, 0), is_open, contents)


def _page(
    access: Access,
    rows: QuerySet[Conversation],
    *,
    size: int = PAGE,
    after: Cursor | None = None,
    archive: bool = False,
) -> Page:
    if after is not None:
        rows = rows.filter(Q(updated_at__lt=after.at) | Q(updated_at=after.at, id__lt=after.id))
    found = list(rows.order_by("-updated_at", "-id")[: size + 1])
    shown, has_more = found[:size], len(found) > size
    days = _Days(access.tenant.time_zone)
    sections = tuple(
        Section(key, title, tuple(group))
        for (key, title), group in groupby(shown, key=lambda each: days.heading(each.updated_at))
    )
    return Page(
        sections,
        continues=days.heading(after.at)[0] if after else "",
        after=Cursor(shown[-1].updated_at, shown[-1].id) if has_more else None,
        is_archive=archive,
    )


class _Days:
    """Headings by how long ago, in the tenant's time zone."""

    def __init__(self, time_zone: str) -> None:
        self._zone = ZoneInfo(time_zone)
        self._today = timezone.now().astimezone(self._zone).date()

    def heading(self, moment: datetime) -> tuple[str, str]:
        """Its key and its words."""
        day = moment.astimezone(self._zone).date()
        if day >= self._today:
            return "today", _("Today")
        if day == self._today - timedelta(days=1):
            return "yesterday", _("Yesterday")
        if day > self._today - timedelta(days=7):
            return "week", _("Last 7 days")
        return f"{day:%Y-%m}", date_format(day, "YEAR_MONTH_FORMAT")


def _bounded(at_least: int) -> int:
    return max(PAGE, min(MOST_SHOWN, at_least))


def read_count(value: Any) -> int:
    """A number of shown conversations from an address; nonsense is the first page."""
    return int(value) if str(value).isascii() and str(value).isdigit() and len(value) < 6 else PAGE
