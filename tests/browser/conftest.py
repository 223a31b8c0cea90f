"""A real browser against the whole stack.

Playwright's synchronous client keeps an event loop running in this thread, which asynchronous
tests and Django's ORM refuse to share; so it lives no longer than this folder's tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import CHROMIUM_ARGUMENTS, find_chromium
from tests.browser.doubles import chat_site, tab  # noqa: F401 - fixtures
from tests.browser.furnished import furnished, profiles  # noqa: F401 - fixtures
from tests.browser.pages import Visitor
from tests.flows.library import Library, make_library
from tests.running_stack import Stack

NewVisitor = Callable[..., Visitor]


NO_CHROMIUM = "NO CHROMIUM ON THIS MACHINE: nothing of the site was tried in a browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are slow ones; without a browser none of them starts the stack."""
    skipped = find_chromium() is None and not os.environ.get("RAGSITE_REQUIRE_BROWSER")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(300))
            if skipped:
                item.add_marker(pytest.mark.skip(reason=NO_CHROMIUM))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it where it is read: a skip is a letter in the middle of hundreds."""
    if any(
        NO_CHROMIUM in str(report.longrepr) for report in terminalreporter.getreports("skipped")
    ):
        terminalreporter.section(NO_CHROMIUM, red=True, bold=True)


@pytest.fixture(scope="package")
def chromium() -> str:
    """The browser; fails where there has to be one."""
    path = find_chromium()
    if path is None:
        pytest.fail(NO_CHROMIUM)
    return path


@pytest.fixture(scope="package")
def browser(chromium: str, django_db_setup: None) -> Iterator[Browser]:
    # The database first: it cannot be set up in a thread whose event loop runs.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        expect.set_options(timeout=15_000)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser, stack: Stack) -> Iterator[NewVisitor]:
    """Makes visitors: `visit("member")`, signed in; `visit("")`, a stranger.

    Whatever a page logs as an error or throws fails the test, unless `visitor.expected` has it.
    """
    visitors: list[Visitor] = []

    def new_visitor(who: str, *, bypass_csp: bool = False, width: int = 1280) -> Visitor:
        context = browser.new_context(
            base_url=stack.url,
            bypass_csp=bypass_csp,
            viewport={"width": width, "height": 860},
            has_touch=width < 600,
        )
        visitor = Visitor(context.new_page(), stack)
        visitors.append(visitor)
        if who:
            visitor.bring_session(who)
        return visitor

    yield new_visitor
    problems = [problem for visitor in visitors for problem in visitor.problems()]
    for visitor in visitors:
        visitor.page.context.close()
    assert problems == []


@pytest.fixture
def library(stack: Stack) -> Library:
    """A new, empty collection that everyone may ask."""
    return make_library(stack)


@pytest.fixture
def page(visit: NewVisitor) -> Page:
    """A page of the corpus admin."""
    return visit("corpus-admin").page
