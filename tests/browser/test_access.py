"""Every page, as axe-core sees it: on a phone and a desk, in light and dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.browser.addresses import Opened, pages, routes
from tests.browser.axe import in_both_themes, violations
from tests.browser.furnished import Furnished

WIDTHS: dict[str, ViewportSize] = {
    "desk": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
# What answers programs; and what is only reached from a link in a mail (see below).
NO_PAGES = {"api", "healthz", "invitation", "language", "metrics", "readyz", "words"}
ROOMS = sorted(
    {Opened(route.replace("<slug:tenant_slug>", "acme"), "").room for route in routes()} - NO_PAGES
)


@pytest.fixture(scope="module")
def opened(furnished: Furnished) -> list[Opened]:
    return pages(furnished)


@pytest.fixture(scope="module")
def profiles(browser: Browser, furnished: Furnished) -> Iterator[dict[str, BrowserContext]]:
    """One browser profile for each person, for all pages."""
    made = {who: furnished.open(browser, who) for who in ("", "manager", "root")}
    yield made
    for context in made.values():
        context.close()


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


def look(page: Page, path: str) -> list[str]:
    """What is wrong with one page, on every width and in every theme."""
    page.set_viewport_size(WIDTHS["desk"])
    answer = page.goto(f"/{path}", wait_until="load")
    assert answer is not None
    if not answer.ok:
        return [f"/{path} answers {answer.status}"]
    found = []
    for name, size in WIDTHS.items():
        page.set_viewport_size(size)
        found += [f"/{path} on a {name}: {each}" for each in in_both_themes(page)]
    return found
