"""The list of conversations in a browser: search, folders, pins, the archive, undo, and sharing."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from pytest_django import DjangoDbBlocker

from apps.chat.models import Conversation, Folder
from apps.tenants.models import Membership, Role, Tenant, User
from apps.tenants.scope import tenant_scope
from tests.browser.axe import in_both_themes
from tests.browser.furnished import _empty
from tests.cast import make_user, signed_in
from tests.chat.test_conversations import converse
from tests.chat.test_views import make_answer, make_document
from tests.contract.site import Site, a_site

T = TypeVar("T")
LATEST = "How much leave do I have?"
ARABIC = "كم يوما إجازتي؟"


@dataclass
class House:
    """A site with a member who has asked a lot, and another who has not."""

    site: Site
    tenant: Tenant
    asker: User
    sessions: dict[str, str] = field(repr=False)
    _database: ThreadPoolExecutor = field(repr=False)

    def ask(self, question: Callable[[], T]) -> T:
        """What `question` answers, where the ORM may be used."""
        return self._database.submit(question).result(60)

    def furnish(self) -> None:
        """The history anew, as every test begins with it."""
        self.ask(lambda: _history(self.tenant, self.asker))

    def open(
        self, browser: Browser, who: str, *, width: int = 1280, **options: object
    ) -> BrowserContext:
        context = browser.new_context(
            base_url=self.site.root,
            viewport={"width": width, "height": 844},
            has_touch=width < 600,
            **options,  # type: ignore[arg-type]
        )
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": self.sessions[who]}
        context.add_cookies([{**cookie, "url": self.site.root}])
        return context


@pytest.fixture(scope="module")
def house(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with ThreadPoolExecutor(1) as database, django_db_blocker.unblock():
        tenant, people = database.submit(_move_in).result(60)
        sessions = {user.username: database.submit(_session, user).result(60) for user in people}
        try:
            with a_site(LOG_LEVEL="ERROR") as site:
                yield House(site, tenant, people[0], sessions, database)
        finally:
            database.submit(_empty).result(60)


@pytest.fixture
def visit(browser: Browser, house: House) -> Iterator[Callable[..., Page]]:
    """Opens the chat as somebody: `visit("bob")`; what a page throws fails the test."""
    house.furnish()
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def open_page(who: str = "bob", path: str = "/t/acme/chat/", **options: object) -> Page:
        context = house.open(browser, who, **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.extend(_faults(said.text)))
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def _faults(words: str) -> list[str]:
    return [words] if "Content Security Policy" in words or "Uncaught" in words else []


def _move_in() -> tuple[Tenant, list[User]]:
    tenant = Tenant.objects.create(slug="acme", name="Acme")
    people = [make_user("bob"), make_user("rita")]
    for user in people:
        Membership.objects.create(tenant=tenant, user=user, role=Role.MEMBER)
    return tenant, people


def _session(user: User) -> str:
    value = signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value
    connections["default"].close()
    return str(value)


def _history(tenant: Tenant, user: User) -> None:
    with tenant_scope(tenant.id):
        Conversation.objects.filter(tenant=tenant).delete()
        Folder.objects.filter(tenant=tenant).delete()
        Conversation.objects.bulk_create(
            Conversation(tenant=tenant, user=user, title=f"Question number {n}") for n in range(240)
        )
        Conversation.objects.update(updated_at=_days_ago(60))
    for days, title in ((30, "Receipts for travel"), (3, "Straße und Größe"), (1, ARABIC)):
        converse(tenant, user, title, ago=timedelta(days=days))
    make_answer(tenant, user, make_document(tenant, open_to_all=False), question=LATEST)
    connections["default"].close()


def _days_ago(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def shoot(page: Page, name: str) -> None:
    if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/conversations-{name}.png")


def row(page: Page, title: str) -> Locator:
    return page.locator(".conversation").filter(
        has=page.get_by_role("link", name=title, exact=True)
    )


def choose(page: Page, title: str, action: str) -> None:
    """By the menu of a conversation."""
    row(page, title).hover()
    row(page, title).get_by_role("button", name=re.compile("^Actions for")).click()
    page.get_by_role("menuitem", name=action, exact=True).click()


def heading(page: Page, name: str) -> Locator:
    return page.locator("#conversation-list").get_by_role("heading", name=name, exact=True)


def test_the_list_is_in_sections_and_loads_as_one_scrolls(visit: Callable[..., Page]) -> None:
    page = visit()
    for name in ("Today", "Yesterday", "Last 7 days"):
        expect(heading(page, name)).to_be_visible()
    shoot(page, "list")
    rows = page.locator(".conversation")
    for count in (50, 100, 150, 200, 244):
        expect(rows).to_have_count(count)
        page.locator("#conversation-list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
    expect(page.get_by_role("button", name="Show earlier conversations")).to_have_count(0)
    titles = rows.locator("a").all_inner_texts()
    assert len(set(titles)) == 244
    # Renaming far below keeps the place and all that was loaded.
    scrolled = page.locator("#conversation-list").evaluate("list => list.scrollTop")
    choose(page, titles[-1], "Rename")
    page.get_by_role("textbox", name="Title of the conversation").fill("The first of all")
    page.keyboard.press("Enter")
    expect(row(page, "The first of all")).to_be_visible()
    expect(rows).to_have_count(244)
    now = page.locator("#conversation-list").evaluate("list => list.scrollTop")
    assert abs(now - scrolled) < 5


def test_a_title_is_changed_where_it_stands(visit: Callable[..., Page]) -> None:
    page = visit()
    row(page, LATEST).get_by_role("link").click()
    expect(page.locator("#conversation-title")).to_have_text(LATEST)
    choose(page, LATEST, "Rename")
    field = page.get_by_role("textbox", name="Title of the conversation")
    expect(field).to_be_focused()
    field.fill("something else")
    page.keyboard.press("Escape")
    expect(row(page, LATEST).get_by_role("link")).to_be_focused()
    choose(page, LATEST, "Rename")
    field.fill("Days off")
    page.keyboard.press("Enter")
    expect(row(page, "Days off").get_by_role("link")).to_be_focused()
    expect(page.locator("#conversation-title")).to_have_text("Days off")
    page.reload()
    expect(page).to_have_title(re.compile("^Days off"))
    # Another tab that has it open shows the new title too, in its list and above the thread.
    other = page.context.new_page()
    other.goto(page.url)
    for tab in (page, other):
        expect(tab.locator("#chat")).to_have_attribute("data-connection", "open")
    choose(page, "Days off", "Rename")
    field.fill("Holidays")
    page.keyboard.press("Enter")
    expect(other.locator("#conversation-title")).to_have_text("Holidays")
    expect(row(other, "Holidays")).to_be_visible()


def test_the_menu_is_worked_by_keys(visit: Callable[..., Page]) -> None:
    page = visit()
    button = row(page, LATEST).get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    menu = page.get_by_role("menu", name="Conversation", exact=True)
    expect(menu).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(menu.get_by_role("menuitem", name="Rename")).to_be_focused()
    shoot(page, "menu")
    page.keyboard.press("ArrowUp")
    expect(menu.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("p")
    expect(menu.get_by_role("menuitem", name="Pin", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(menu).to_be_hidden()
    row(page, LATEST).hover()
    button.click()
    expect(menu).to_be_visible()
    page.mouse.click(900, 300)
    expect(menu).to_be_hidden()


def test_pinning_and_archiving(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "Receipts for travel", "Pin")
    expect(heading(page, "Pinned")).to_be_visible()
    expect(page.locator(".conversation a").first).to_have_text("Receipts for travel")
    choose(page, "Receipts for travel", "Unpin")
    expect(heading(page, "Pinned")).to_have_count(0)
    choose(page, LATEST, "Archive")
    expect(row(page, LATEST)).to_have_count(0)
    toast = page.locator(".toast")
    expect(toast).to_contain_text("is archived.")
    page.get_by_role("button", name="1 archived").click()
    expect(heading(page, "Archived")).to_be_focused()
    expect(page.locator(".conversation")).to_have_count(1)
    shoot(page, "archive")
    choose(page, LATEST, "Bring back from the archive")
    expect(page.get_by_text("Nothing is archived.")).to_be_visible()
    page.get_by_role("button", name="Back to all conversations").click()
    expect(row(page, LATEST)).to_be_visible()


def test_folders(visit: Callable[..., Page]) -> None:
    page = visit()
    page.get_by_role("button", name="More about your conversations").click()
    page.get_by_role("menuitem", name="New folder…").click()
    page.get_by_role("textbox", name="Name").fill("Work")
    page.keyboard.press("Enter")
    folder = page.locator(".folder")
    expect(folder).to_contain_text("Work")
    # A second of that name is refused where it is typed.
    page.get_by_role("button", name="More about your conversations").click()
    page.get_by_role("menuitem", name="New folder…").click()
    page.get_by_role("textbox", name="Name").fill("Work")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="already")).to_be_visible()
    page.keyboard.press("Escape")
    choose(page, LATEST, "Move to a folder…")
    page.get_by_role("radio", name="Work").check()
    shoot(page, "move")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(folder.locator(".folder-count")).to_have_text("1")
    expect(folder.locator("summary")).to_be_focused()
    page.keyboard.press("Enter")
    expect(folder.get_by_role("link", name=LATEST)).to_be_visible()
    shoot(page, "folder")
    page.reload()
    expect(folder.get_by_role("link", name=LATEST)).to_be_visible()
    choose(page, "Receipts for travel", "Move to a folder…")
    page.get_by_role("textbox", name="Or into a new folder").fill("Travel")
    page.keyboard.press("Enter")
    expect(folder).to_have_count(2)
    work = folder.filter(has_text="Work")
    work.hover()
    work.get_by_role("button", name="Actions for the folder “Work”").click()
    page.get_by_role("menuitem", name="Delete the folder, keep its conversations").click()
    expect(folder).to_have_count(1)
    expect(row(page, LATEST)).to_be_visible()


def test_deleting_can_be_undone(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, "Receipts for travel", "Delete")
    expect(row(page, "Receipts for travel")).to_have_count(0)
    toast = page.locator(".toast")
    expect(toast).to_contain_text("“Receipts for travel” is deleted.")
    expect(toast.get_by_role("button", name="Undo")).to_be_focused()
    expect(page.locator("#toasts")).to_have_attribute("role", "status")
    shoot(page, "undo")
    page.keyboard.press("Enter")
    expect(row(page, "Receipts for travel").get_by_role("link")).to_be_focused()
    expect(toast).to_have_count(0)
    # Put away by Escape, the focus is in the list again.
    choose(page, "Receipts for travel", "Delete")
    expect(toast.get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Escape")
    expect(toast).to_have_count(0)
    expect(page.locator(".conversation a:focus")).to_have_count(1)
    page.reload()
    expect(row(page, "Receipts for travel")).to_have_count(0)


def test_undo_is_offered_for_20_s_and_while_it_is_in_use(visit: Callable[..., Page]) -> None:
    page = visit()
    page.clock.install()
    choose(page, "Receipts for travel", "Delete")
    page.mouse.move(900, 300)
    toast = page.locator(".toast")
    page.clock.run_for(15_000)
    expect(toast).to_be_visible()
    toast.hover()
    page.clock.run_for(30_000)
    expect(toast).to_be_visible()
    page.mouse.move(900, 300)
    page.locator("#conversation-title").click()
    page.clock.run_for(21_000)
    expect(toast).to_have_count(0)


def test_deleting_what_one_reads_leads_to_a_new_chat_and_back(visit: Callable[..., Page]) -> None:
    page = visit()
    row(page, LATEST).get_by_role("link").click()
    expect(page.locator("#conversation-title")).to_have_text(LATEST)
    choose(page, LATEST, "Delete")
    expect(page.locator("#conversation-title")).to_have_text("New chat")
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator("#conversation-title")).to_have_text(LATEST)


def test_search_finds_as_one_types(visit: Callable[..., Page]) -> None:
    page = visit()
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Search your conversations")
    field = dialog.get_by_role("textbox", name="Search in titles, questions and answers")
    expect(field).to_be_focused()
    expect(dialog.get_by_role("link").first).to_be_visible()
    page.keyboard.type("strasse grosse")
    found = dialog.get_by_role("link", name=re.compile("Straße und Größe"))
    expect(found.locator("mark")).to_have_count(2)
    expect(dialog.get_by_role("link")).to_have_count(1)
    expect(page.locator("#search-said")).to_have_text("1 conversation found.")
    field.fill("days leave")
    expect(dialog.locator(".found-snippet mark").first).to_be_visible()
    shoot(page, "search")
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_role("link").first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#conversation-title")).to_have_text(LATEST)
    expect(page.locator(".message:target")).to_be_in_viewport()
    expect(page.locator(".message:target")).to_be_focused()
    page.get_by_role("button", name="Search your conversations").click()
    field.fill("zebra")
    expect(dialog).to_contain_text("Nothing found.")
    shoot(page, "search-nothing")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Search your conversations")).to_be_focused()


def test_another_tab_follows(visit: Callable[..., Page], house: House) -> None:
    page = visit()
    expect(page.locator("#chat")).to_have_attribute("data-connection", "open")
    other = page.context.new_page()
    other.goto("/t/acme/chat/")
    expect(other.locator("#chat")).to_have_attribute("data-connection", "open")
    other.locator("#question").fill("half a question")
    choose(page, "Receipts for travel", "Pin")
    expect(heading(other, "Pinned")).to_be_visible()
    expect(other.locator("#question")).to_be_focused()
    # A menu that is open there stays open; the list is fetched when it is closed.
    row(other, LATEST).hover()
    row(other, LATEST).get_by_role("button").click()
    choose(page, "Receipts for travel", "Unpin")
    expect(heading(page, "Pinned")).to_have_count(0)
    other.wait_for_timeout(500)
    expect(other.get_by_role("menu", name="Conversation", exact=True)).to_be_visible()
    expect(heading(other, "Pinned")).to_be_visible()
    other.keyboard.press("Escape")
    expect(heading(other, "Pinned")).to_have_count(0)
    expect(row(other, LATEST).get_by_role("button")).to_be_focused()


def test_a_conversation_is_shared_and_no_longer(visit: Callable[..., Page]) -> None:
    page = visit()
    choose(page, LATEST, "Share…")
    dialog = page.get_by_role("dialog", name="Share this conversation")
    expect(dialog).to_contain_text("Every member of Acme who may chat")
    shoot(page, "share")
    dialog.get_by_role("button", name="Make a link").click()
    address = dialog.get_by_label("Link").input_value()
    assert uuid.UUID(address.rstrip("/").rsplit("/", 1)[-1])
    expect(dialog.get_by_role("button", name="Copy link")).to_be_focused()
    shoot(page, "shared-link")
    reader = visit("rita", address)
    expect(reader.get_by_role("heading", name=LATEST)).to_be_visible()
    expect(reader.locator(".shared")).to_contain_text("Shared by bob")
    expect(reader.locator(".shared")).to_contain_text("A document that is not open to you")
    expect(reader.locator("body")).not_to_contain_text("handbook.md")
    shoot(reader, "shared")
    reader.locator(".cite").first.click()
    expect(reader.locator("main")).to_contain_text("This source is not open to you")
    reader.get_by_role("link", name="Back to the shared conversation").click()
    expect(reader.get_by_role("heading", name=LATEST)).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="More about your conversations").click()
    page.get_by_role("menuitem", name="What you share…").click()
    shares = page.get_by_role("dialog", name="What you share")
    expect(shares.get_by_role("link", name=LATEST)).to_be_visible()
    shares.get_by_role("button", name=f"Stop sharing “{LATEST}”").click()
    expect(shares).to_contain_text("You share nothing at the moment.")
    assert (answered := reader.reload()) is not None
    assert answered.status == 404


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_on_a_phone(visit: Callable[..., Page], scheme: str) -> None:
    page = visit(width=390, color_scheme=scheme)
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.locator(".conversations")).to_be_visible()
    shoot(page, f"phone-list-{scheme}")
    row(page, LATEST).get_by_role("button").click()
    menu = page.get_by_role("menu", name="Conversation", exact=True)
    expect(menu).to_be_visible()
    shoot(page, f"phone-menu-{scheme}")
    box = menu.bounding_box()
    assert box is not None
    assert (box["x"], round(box["width"]), round(box["y"] + box["height"])) == (0, 390, 844)
    for item in menu.get_by_role("menuitem").all():
        size = item.bounding_box()
        assert size is None or size["height"] >= 44
    menu.get_by_role("menuitem", name="Delete").click()
    expect(page.locator(".toast")).to_be_in_viewport()
    shoot(page, f"phone-undo-{scheme}")
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(row(page, LATEST)).to_be_visible()
    page.get_by_role("button", name="Search your conversations").click()
    page.get_by_role("textbox", name="Search in titles, questions and answers").fill("leave")
    expect(page.locator(".found mark").first).to_be_visible()
    shoot(page, f"phone-search-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [1280, 390])
def test_it_reads_from_right_to_left(visit: Callable[..., Page], width: int) -> None:
    page = visit(width=width, locale="ar")
    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    if width < 600:
        page.locator(".drawer-button").click()
    button = row(page, LATEST).locator(".conversation-more")
    row(page, LATEST).hover()
    button.click()
    expect(page.locator("#conversation-menu")).to_be_in_viewport()
    shoot(page, f"rtl-{width}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_any_state(visit: Callable[..., Page], width: int) -> None:
    page = visit(width=width)
    faults: dict[str, object] = {}

    def look(state: str, *, at: Page = page) -> None:
        if found := in_both_themes(at):
            faults[state] = [str(each) for each in found]

    def drawer() -> None:
        if width < 600:
            page.get_by_role("button", name="Conversations", exact=True).click()

    drawer()
    look("list")
    row(page, LATEST).hover()
    row(page, LATEST).get_by_role("button").click()
    look("menu")
    page.get_by_role("menuitem", name="Rename").click()
    look("rename")
    page.keyboard.press("Escape")
    choose(page, LATEST, "Move to a folder…")
    page.get_by_role("textbox", name="Or into a new folder").fill("Work")
    look("move")
    page.keyboard.press("Enter")
    expect(page.locator(".folder summary")).to_be_focused()
    page.keyboard.press("Enter")
    look("folder")
    page.get_by_role("button", name="Actions for the folder “Work”").click()
    look("folder menu")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More about your conversations").click()
    look("list menu")
    page.get_by_role("menuitem", name="Archived conversations").click()
    look("archive")
    page.get_by_role("button", name="Back to all conversations").click()
    choose(page, LATEST, "Share…")
    look("share")
    page.get_by_role("button", name="Make a link").click()
    look("shared link")
    address = page.get_by_label("Link").input_value()
    page.keyboard.press("Escape")
    choose(page, "Receipts for travel", "Delete")
    expect(page.locator(".toast")).to_be_visible()
    look("undo")
    page.get_by_role("button", name="Search your conversations").click()
    look("search")
    page.get_by_role("textbox", name="Search in titles").fill("leave")
    expect(page.locator(".found mark").first).to_be_visible()
    look("found")
    reader = visit("rita", address, width=width)
    look("shared page", at=reader)
    reader.locator(".cite").first.click()
    look("closed source", at=reader)
    assert faults == {}
