"""A site with doubles and a tenant full of data: light enough to open every page of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from django.conf import settings
from django.db import connections
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from apps.capacity.catalogue.seeding import seed_catalogue
from apps.tenants.models import Membership, Role, Tenant, User
from tests.browser.filling import fill
from tests.cast import make_user, signed_in
from tests.contract.site import Site, a_site
from tests.world import Arguments

T = TypeVar("T")
PEOPLE = ("manager", "member", "root")


@dataclass(frozen=True)
class Furnished:
    """The site, the ids of what is in its tenant `acme`, and a session of each person.

    The database is reached through `ask`: Playwright keeps an event loop in the tests' thread,
    where Django's ORM refuses to work.
    """

    site: Site
    world: Arguments
    sessions: dict[str, str] = field(repr=False)
    _database: ThreadPoolExecutor = field(repr=False)

    @property
    def tenant_url(self) -> str:
        return f"{self.site.root}/t/acme"

    def ask(self, question: Callable[[], T]) -> T:
        """What `question` answers, asked where the ORM may be used."""
        return self._database.submit(question).result(60)

    def cookies(self, who: str) -> dict[str, str]:
        """`who`: one of `PEOPLE`; "" for a stranger."""
        return {settings.SESSION_COOKIE_NAME: self.sessions[who]} if who else {}

    def open(self, browser: Browser, who: str, **options: object) -> BrowserContext:
        """A browser profile with `who` signed in."""
        context = browser.new_context(base_url=self.site.root, **options)  # type: ignore[arg-type]
        for name, value in self.cookies(who).items():
            context.add_cookies([{"name": name, "value": value, "url": self.site.root}])
        return context


@pytest.fixture(scope="module")
def furnished(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Furnished]:
    """One furnished site for a module's tests; the database is empty again after it."""
    with ThreadPoolExecutor(1) as database, django_db_blocker.unblock():
        world, sessions = database.submit(_furnish).result(120)
        try:
            with a_site(LOG_LEVEL="ERROR") as site:
                yield Furnished(site, world, sessions, database)
        finally:
            database.submit(_empty).result(60)


@pytest.fixture(scope="module")
def profiles(browser: Browser, furnished: Furnished) -> Iterator[dict[str, BrowserContext]]:
    """One browser profile for each person, for all pages."""
    # Without the worker: it would fetch pages past what a test puts in their place.
    made = {
        who: furnished.open(browser, who, service_workers="block")
        for who in ("", "manager", "root")
    }
    yield made
    for context in made.values():
        context.close()


def _furnish() -> tuple[Arguments, dict[str, str]]:
    acme = Tenant.objects.create(slug="acme", name="Acme Instruments & Daughters")
    people = {"manager": make_user("alice"), "member": make_user("bob"), "root": _root()}
    Membership.objects.create(tenant=acme, user=people["manager"], role=Role.TENANT_MANAGER)
    Membership.objects.create(tenant=acme, user=people["member"], role=Role.MEMBER)
    world = fill(acme, manager=people["manager"])
    seed_catalogue()  # an earlier module's `_empty` took what migrating put there
    return world, {who: _session(person) for who, person in people.items()}


def _root() -> User:
    """Operations and site administration in one person."""
    root = make_user("root", is_ops=True)
    root.is_staff = root.is_superuser = True
    root.save()
    return root


def _session(user: User) -> str:
    return signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value


def _empty() -> None:
    """As `flush` does, which does not know of the tables in other schemas."""
    connection = connections["default"]
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    names = [connection.ops.quote_name(name) for name in tables]
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join([*names, 'search.chunkvector'])}")
    connection.close()
