"""Every address of a tenant, tried by everybody who should not get in, and by one who should.

The addresses come from the URL resolver: a new one is tried without anyone thinking of it, and
fails here when it has no right of its own or names an object that `tests.world` does not make.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, path, reverse
from django.urls.converters import UUIDConverter

from apps.tenants.access import RIGHTS, Right
from apps.tenants.models import Membership, Role, User
from tests.cast import Cast, make_user, signed_in
from tests.world import Arguments, furnish

PREFIX = "t/<slug:tenant_slug>/"
METHODS = ("get", "post")
NOT_ALLOWED = 405  # the same for everyone, so it tells nothing


@dataclass(frozen=True)
class Address:
    """One URL pattern below `/t/<tenant_slug>/`."""

    route: str
    view: Callable[..., Any]
    arguments: tuple[str, ...]  # without tenant_slug
    ids: tuple[str, ...]  # those of them that are UUIDs

    def url(self, world: Arguments, **changes: object) -> str:
        values = {**world, **changes, "tenant_slug": "acme"}
        return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda m: str(values[m[1]]), self.route)

    @property
    def right(self) -> Right:
        right = self.view.required_right  # type: ignore[attr-defined]
        assert isinstance(right, Right)
        return right


def walk(
    patterns: list[URLPattern | URLResolver], before: str = "", converters: Any = None
) -> Iterator[Address]:
    for each in patterns:
        route = before + str(each.pattern)
        known = {**(converters or {}), **each.pattern.converters}
        if isinstance(each, URLResolver):
            yield from walk(each.url_patterns, route, known)
        elif route.startswith(PREFIX):
            arguments = tuple(name for name in known if name != "tenant_slug")
            ids = tuple(n for n in arguments if isinstance(known[n], UUIDConverter))
            yield Address(route, each.callback, arguments, ids)


ADDRESSES = list(walk(get_resolver().url_patterns))
WITH_IDS = [address for address in ADDRESSES if address.ids]
every_address = pytest.mark.parametrize("address", ADDRESSES, ids=lambda a: a.route)


@pytest.fixture
def world(cast: Cast, request: pytest.FixtureRequest) -> Arguments:
    """Acme's objects; what belongs to one person is that of whoever may open the address."""
    owner = someone_with(request.getfixturevalue("address").right, cast)
    return furnish(cast.acme, manager=cast.alice, member=owner)


@pytest.fixture
def rival_world(cast: Cast) -> Arguments:
    member = make_user("rita")
    Membership.objects.create(tenant=cast.rival, user=member, role=Role.MEMBER)
    return furnish(cast.rival, manager=cast.mallory, member=member)


def status_of(browser: Client, method: str, url: str) -> int:
    response = getattr(browser, method)(url)
    if response.streaming and not response.is_async:
        b"".join(response.streaming_content)  # read to its end, a file is closed
    return int(response.status_code)


def statuses(browser: Client, url: str) -> set[int]:
    """What GET and POST answer, apart from "no such method here"."""
    found = {status_of(browser, method, url) for method in METHODS} - {NOT_ALLOWED}
    assert found, f"{url} answers neither GET nor POST"
    return found


def someone_with(right: Right, cast: Cast) -> User:
    """The person with the least role that includes `right`; bob before the others."""
    people = [(Role.MEMBER, cast.bob), (Role.CORPUS_ADMIN, cast.carl)]
    return next((p for role, p in people if right in RIGHTS[role]), cast.alice)


def test_there_are_addresses_of_every_room() -> None:
    rooms = {address.route.removeprefix(PREFIX).split("/")[0] for address in ADDRESSES}
    assert {"people", "keys", "settings", "documents", "chat"} <= rooms


def test_an_address_without_protection_is_found() -> None:
    open_view: Callable[..., HttpResponse] = lambda request, tenant_slug: HttpResponse()  # noqa: E731
    (found,) = walk([path(f"{PREFIX}forgotten/", open_view)])
    with pytest.raises(AttributeError):
        assert found.right


@every_address
def test_every_address_demands_a_right(address: Address) -> None:
    assert address.right in Right


@every_address
@pytest.mark.django_db
def test_only_people_with_the_right_get_in(cast: Cast, address: Address, world: Arguments) -> None:
    """One world for all of them: whoever is refused changes nothing."""
    url = address.url(world)
    assert statuses(Client(), url) == {302}, "a stranger is sent to sign in"
    for name in ("mallory", "olga"):
        found = statuses(signed_in(getattr(cast, name)), url)
        assert found == {404}, f"{name} is told that there is something"
    for role, person in ((Role.MEMBER, cast.bob), (Role.CORPUS_ADMIN, cast.carl)):
        if address.right not in RIGHTS[role]:
            assert statuses(signed_in(person), url) == {403}, f"a {role} without the right"
    browser = signed_in(someone_with(address.right, cast))
    for method in METHODS:  # posting last: it may delete the object
        status = status_of(browser, method, url)
        assert status < 500
        assert status not in {403, 404}, f"{method} by someone with the right"


@every_address
@pytest.mark.django_db
def test_a_stranger_is_sent_to_the_sign_in_page(address: Address) -> None:
    numbers = {"page": 1, "label_id": 1, "hit_id": 1}
    url = address.url(dict.fromkeys(address.arguments, uuid.UUID(int=1)) | numbers)
    for response in (Client().get(url), Client().post(url)):
        if response.status_code != NOT_ALLOWED:
            assert response.headers["Location"].startswith(reverse("account_login"))


@every_address
@pytest.mark.django_db
def test_operations_with_a_grant_read_and_no_more(
    cast: Cast, address: Address, world: Arguments
) -> None:
    cast.acme.ops_may_read_text = True
    cast.acme.save()
    found = statuses(signed_in(cast.olga), address.url(world))
    if address.right in {Right.READ, Right.SEE_HOPS}:
        assert 403 not in found
    else:
        assert found == {403}


@pytest.mark.parametrize("address", WITH_IDS, ids=lambda a: a.route)
@pytest.mark.django_db
def test_ids_of_another_tenant_and_guessed_ids_are_not_found(
    cast: Cast, address: Address, world: Arguments, rival_world: Arguments
) -> None:
    browser = signed_in(someone_with(address.right, cast))
    for name in address.ids:
        for value in (rival_world[name], uuid.uuid4()):
            assert statuses(browser, address.url(world, **{name: value})) == {404}, name


@pytest.mark.django_db
@pytest.mark.parametrize("slug", ["nowhere", "ACME", "acme2", "rival"])
def test_a_tenant_one_does_not_belong_to_is_not_there(cast: Cast, slug: str) -> None:
    assert signed_in(cast.alice).get(f"/t/{slug}/people/").status_code == 404


@pytest.mark.django_db
def test_an_account_that_was_turned_off_is_signed_out(cast: Cast) -> None:
    browser = signed_in(cast.alice)
    cast.alice.is_active = False
    cast.alice.save()
    assert browser.get("/t/acme/people/").status_code == 302


@pytest.mark.django_db
def test_a_page_leaves_no_scope_behind(cast: Cast) -> None:
    signed_in(cast.alice).get("/t/acme/people/")
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('app.tenant', true)")
        assert not cursor.fetchone()[0]
