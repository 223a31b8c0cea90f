"""Inviting a person, who joins in a browser of their own."""

from __future__ import annotations

import re
import uuid

from playwright.sync_api import expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat, CollectionPage
from tests.flows.library import Library

PASSWORD = "a long enough password of one's own"


def test_an_invited_person_joins_as_a_member(visit: NewVisitor, library: Library) -> None:
    library.add("moor.md", "# Moor\n\nThe moor is crossed on planks of larch.\n")
    email = f"nora.{uuid.uuid4().hex[:8]}@example.com"
    manager = visit("manager")
    manager.page.goto(f"{library.stack.tenant_url}/people/")
    manager.page.locator("[name=email]").fill(email)
    manager.page.locator("#invite-heading ~ form select[name=role]").select_option("member")
    manager.shoot("people")
    manager.page.get_by_role("button", name="Invite").click()
    link = manager.page.locator("#link").input_value()
    manager.shoot("invited")

    invited = visit("")
    invited.page.goto(link)
    expect(invited.page.locator("main")).to_contain_text(email)
    invited.shoot("invitation")
    invited.page.get_by_role("link", name="Make an account").click()
    expect(invited.page.locator("[name=email]")).to_have_value(email)
    invited.page.locator("[name=password1]").fill(PASSWORD)
    invited.shoot("signup")
    invited.page.get_by_role("button", name="Make account and join").click()
    expect(invited.page).to_have_url(re.compile("/t/demo/"))
    invited.shoot("joined")
    collection = CollectionPage(invited.page, library)
    expect(collection.row("moor.md")).to_be_visible()
    expect(invited.page.locator("#upload")).to_have_count(0)
    expect(invited.page.get_by_role("link", name="People", exact=True)).to_have_count(0)
    chat = Chat(invited.page, library)
    chat.ask_and_wait("On what is the moor crossed?")
    expect(chat.text).to_contain_text("larch")

    manager.page.goto(f"{library.stack.tenant_url}/people/")
    expect(manager.page.locator("tr").filter(has_text=email)).to_contain_text("Change")
    again = visit("")
    again.expected = ("404", "410")
    again.page.goto(link)
    expect(again.page.get_by_role("link", name="Make an account")).to_have_count(0)
    again.shoot("link-used")
