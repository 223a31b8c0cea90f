"""Every page, as axe-core sees it: on a phone and a desk, in light and dark."""

from __future__ import annotations

from collections import Counter

import pytest
from allauth.account.forms import default_token_generator
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.template.loader import render_to_string
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.browser.addresses import Opened, pages, routes
from tests.browser.axe import in_both_themes, violations
from tests.browser.furnished import Furnished
from tests.cast import PASSWORD, make_user

WIDTHS: dict[str, ViewportSize] = {
    "desk": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
# What answers programs; and what is only reached from a link in a mail (see below).
NO_PAGES = {
    *("api", "healthz", "invitation", "language", "manifest", "metrics", "readyz", "sw", "words"),
}
ROOMS = sorted(
    {Opened(route.replace("<slug:tenant_slug>", "acme"), "").room for route in routes()} - NO_PAGES
)


@pytest.fixture(scope="module")
def opened(furnished: Furnished) -> list[Opened]:
    return pages(furnished)


def test_axe_finds_what_is_wrong_on_a_page_that_is_wrong(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        '<html lang="en"><title>Wrong</title><main><h1>Wrong</h1><img src="data:,">'
        '<p style="color: #bbb; background: #fff">pale</p><button></button></main>'
    )
    found = {each.rule for each in violations(page)}
    assert {"image-alt", "color-contrast", "button-name"} <= found
    page.close()


def test_the_pages_of_every_kind_are_among_those_opened(opened: list[Opened]) -> None:
    rooms = Counter(each.room for each in opened)
    assert set(rooms) == set(ROOMS)
    assert len(opened) > 60


@pytest.mark.parametrize("room", ROOMS)
def test_no_page_breaks_a_rule(
    opened: list[Opened], profiles: dict[str, BrowserContext], room: str
) -> None:
    problems: list[str] = []
    for each in (page for page in opened if page.room == room):
        page = profiles[each.who].new_page()
        problems += look(page, each.path)
        page.close()
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("page_of", ["400", "403", "403_csrf", "404", "429", "500", "503"])
def test_pages_that_say_what_went_wrong(
    furnished: Furnished, profiles: dict[str, BrowserContext], page_of: str
) -> None:
    html = furnished.ask(lambda: render_to_string(f"{page_of}.html"))
    page = profiles[""].new_page()
    page.route("**/wrong/", lambda route: route.fulfill(body=html, content_type="text/html"))
    check(page, "wrong/")


def test_an_invitation(profiles: dict[str, BrowserContext]) -> None:
    check(profiles[""].new_page(), "invitations/acme/")


def test_links_of_mails(furnished: Furnished, profiles: dict[str, BrowserContext]) -> None:
    confirming, resetting = furnished.ask(_links)
    for link in (confirming, resetting):
        check(profiles[""].new_page(), link)


def test_the_second_factor_at_the_door(browser: Browser, furnished: Furnished) -> None:
    furnished.ask(_with_second_factor)
    context = furnished.open(browser, "")
    page = context.new_page()
    page.goto("/accounts/login/")
    page.locator("[name=login]").fill("tara@example.com")
    page.locator("[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/2fa/authenticate/")
    found = everywhere(page, "the second factor")
    context.close()
    assert not found, "\n" + "\n".join(found)


def _with_second_factor() -> None:
    user = make_user("tara")
    # As the site hashes: the tests' own fast way is not known to it.
    user.password = PBKDF2PasswordHasher().encode(PASSWORD, "salt")
    user.save()
    TOTP.activate(user, generate_totp_secret())


def _links() -> tuple[str, str]:
    """To confirm an address, and to choose another password."""
    user = make_user("mona")
    address = EmailAddress.objects.create(user=user, email="new@example.com")
    key = EmailConfirmationHMAC(address).key
    token = f"{user_pk_to_url_str(user)}-{default_token_generator.make_token(user)}"
    return f"accounts/confirm-email/{key}/", f"accounts/password/reset/key/{token}/"


def check(page: Page, path: str) -> None:
    found = look(page, path)
    page.close()
    assert not found, "\n" + "\n".join(found)


def look(page: Page, path: str) -> list[str]:
    """What is wrong with one page, on every width and in every theme."""
    page.set_viewport_size(WIDTHS["desk"])
    answer = page.goto(f"/{path}", wait_until="load")
    assert answer is not None
    return everywhere(page, f"/{path}") if answer.ok else [f"/{path} answers {answer.status}"]


def everywhere(page: Page, called: str) -> list[str]:
    """The same of a page that is open."""
    found = []
    for name, size in WIDTHS.items():
        page.set_viewport_size(size)
        # Scripts answer to another width before the next frame is painted: let two go by.
        page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        found += [f"{called} on a {name}: {each}" for each in in_both_themes(page)]
    return found
