"""A chat to try in a browser: a site with doubles, one indexed document, and two models.

The doubles write what a test tells them to, as slowly as it tells them to.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import redis
from django.conf import settings
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from pytest_django import DjangoDbBlocker

from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream
from apps.inference import registry
from apps.tenants.models import Membership, Role, Tenant
from ragsite.stack.state import BASE_DIR
from tests.browser.furnished import _empty
from tests.cast import make_user, signed_in
from tests.chat.library import PASSAGES, add_document
from tests.contract.site import Site, _wait_for, a_site
from tests.contract.tei import TeiDouble
from tests.contract.tgi import Behaviour, TgiDouble

T = TypeVar("T")
QUESTION = "How many days of paid leave do employees receive a year?"
SECOND_MODEL = "second"
# Long enough to be met in the middle: 60 tokens at 50 ms are 3 s.
WORDS = tuple(f" word{n}" for n in range(60))
# To be stopped: 30 s, on a busy machine as well.
LONG = Behaviour(
    tokens=("Employees receive 25 days [1].", *(f" word{n}" for n in range(600))), token_s=0.05
)
SLOW = Behaviour(tokens=("Employees receive 25 days [1].", *WORDS), token_s=0.05)


@dataclass
class ChatSite:
    """The site, its models' doubles, and a session of its member.

    The database is reached through `ask`: Playwright keeps an event loop in the tests' thread,
    where Django's ORM refuses to work.
    """

    site: Site
    second: TgiDouble  # behind the second model
    session: str = field(repr=False)
    _database: ThreadPoolExecutor = field(repr=False)
    _restarted: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    @property
    def tgi(self) -> TgiDouble:
        return self.site.tgi

    def ask(self, question: Callable[[], T]) -> T:
        """What `question` answers, asked where the ORM may be used."""
        return self._database.submit(question).result(60)

    def open(self, browser: Browser, *, width: int = 1280, **options: object) -> BrowserContext:
        """A browser profile with the member signed in."""
        context = browser.new_context(
            base_url=self.site.root,
            viewport={"width": width, "height": 860},
            has_touch=width < 600,
            **options,  # type: ignore[arg-type]
        )
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": self.session}
        context.add_cookies([{**cookie, "url": self.site.root}])
        return context

    def kill(self) -> None:
        """The web process dies, as by the kernel's hand."""
        running = self._restarted[-1] if self._restarted else None
        os.kill(running.pid if running else self.site.pid, signal.SIGKILL)
        if running:
            running.wait(20)

    def start_again(self) -> None:
        """Another web process at the same address."""
        command = [sys.executable, "-m", "daphne", "--bind=127.0.0.1", f"--port={self.site.port}"]
        process = subprocess.Popen(
            [*command, "ragsite.asgi:application"], cwd=BASE_DIR, env=self.site.environment
        )
        self._restarted.append(process)
        _wait_for(process, f"{self.site.root}/v1/openapi.json")

    def end(self) -> None:
        for process in self._restarted:
            process.terminate()
            process.wait(20)


class ChatPage:
    """The chat page in one tab."""

    def __init__(self, page: Page, address: str, before: Callable[[Page], Any] | None) -> None:
        self.page = page
        self.wire = before(page) if before else None  # what a test has put in between
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.thread = page.locator("#thread")
        self.questions = self.thread.locator(".question")
        self.answers = self.thread.locator(".answer")
        self.composer = page.locator("#question")
        self.connection = page.locator("#connection")
        self.stop = page.get_by_role("button", name="Stop", exact=True)
        page.goto(address)
        self.wait_for_connection()

    @property
    def last(self) -> Locator:
        return self.answers.last

    @property
    def text(self) -> Locator:
        return self.last.locator(".answer-body")

    def wait_for_connection(self) -> None:
        expect(self.page.locator("#chat")).to_have_attribute("data-connection", "open")

    def ask(self, question: str = QUESTION) -> None:
        """Send by Enter; does not wait."""
        before = self.questions.count()
        self.composer.fill(question)
        self.composer.press("Enter")
        expect(self.questions).to_have_count(before + 1)

    def ask_and_wait(self, question: str = QUESTION) -> None:
        self.ask(question)
        self.wait_for("complete")

    def wait_for(self, state: str) -> None:
        expect(self.last).to_have_attribute("data-state", state)

    def wait_for_text(self, words: str) -> None:
        expect(self.text).to_contain_text(words)

    def shoot(self, name: str) -> None:
        """A picture for people, where RAGSITE_SCREENSHOTS names a folder."""
        if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
            self.page.screenshot(path=f"{folder}/{name}.png")


@pytest.fixture(scope="module")
def chat_site(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[ChatSite]:
    """One site for a module's tests; the database is empty again after it."""
    with ThreadPoolExecutor(1) as database, django_db_blocker.unblock(), TgiDouble() as second:
        session = database.submit(_furnish, second.url).result(120)
        try:
            # Answers of before would be given again at once, and nothing could be watched; a
            # title by the model would take what is scripted for an answer.
            with a_site(RESPONSE_CACHE_TTL_S="0", TITLES="rule", LOG_LEVEL="ERROR") as site:
                made = ChatSite(site, second, session, database)
                yield made
                made.end()
        finally:
            database.submit(_empty).result(60)


@pytest.fixture
def tab(browser: Browser, chat_site: ChatSite) -> Iterator[Callable[..., ChatPage]]:
    """Opens tabs: `tab()`, `tab(beside=another)`, `tab(before=…)` with something put before it.

    What a page throws fails the test.
    """
    chat_site.tgi.default = chat_site.second.default = Behaviour()
    with redis.Redis.from_url(settings.REDIS_URL) as store:
        store.flushdb()
    pages: list[ChatPage] = []

    def open_tab(
        address: str = "/t/acme/chat/",
        *,
        beside: ChatPage | None = None,
        before: Callable[[Page], Any] | None = None,
        width: int = 1280,
    ) -> ChatPage:
        context = beside.page.context if beside else chat_site.open(browser, width=width)
        pages.append(ChatPage(context.new_page(), address, before))
        return pages[-1]

    yield open_tab
    problems = [problem for page in pages for problem in page.problems]
    for context in {page.page.context for page in pages}:
        context.close()
    assert problems == []


def _furnish(second_url: str) -> str:
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    bob = make_user("bob")
    Membership.objects.create(tenant=tenant, user=bob, role=Role.MEMBER)
    with _embedding():
        add_document(tenant, PASSAGES)
    upstream = GatewayUpstream.objects.create(name="beside", kind="tgi", url=second_url)
    model = GatewayModel.objects.create(alias=SECOND_MODEL, label="Second model")
    GatewayRoute.objects.create(model=model, upstream=upstream)
    connections["default"].close()
    return signed_in(bob).cookies[settings.SESSION_COOKIE_NAME].value


@contextmanager
def _embedding() -> Iterator[None]:
    with TeiDouble() as tei, override_settings(TEI_URL=tei.url, RERANKER="off"):
        registry.forget()
        yield
    registry.forget()
