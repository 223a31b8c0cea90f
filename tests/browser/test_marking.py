"""Marking passages in a search, by mouse and by keyboard, and what becomes of the marks."""

from __future__ import annotations

import re
import uuid

from playwright.sync_api import Page, expect

from tests.browser.conftest import NewVisitor
from tests.browser.test_looks import PHONE, check_width
from tests.flows.library import Library

QUESTION = "How deep is the well at Sallow?"
SEARCH_MS = 60_000


def search(page: Page, library: Library, question: str = QUESTION) -> None:
    page.goto(f"{library.stack.tenant_url}/search/?collection={library.id}")
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    expect(page.locator(".found-passage").first).to_be_visible(timeout=SEARCH_MS)


def test_passages_are_marked_into_a_new_set(visit: NewVisitor, library: Library) -> None:
    library.add("well.md", "# The well\n\nThe well at Sallow is forty ells deep.\n")
    library.add("ferry.md", "# The ferry\n\nThe ferry at Upwell leaves at nine.\n")
    visitor = visit("corpus-admin")
    page, name = visitor.page, f"Villages {uuid.uuid4().hex[:6]}"
    search(page, library)
    page.get_by_label("Mark passages into").select_option("new")
    page.get_by_label("Its name").fill(name)
    page.get_by_label("about", exact=True).select_option(library.id)
    page.get_by_role("button", name="Make the set").click()
    well = page.locator(".found-passage").filter(has_text="forty ells")
    well.get_by_role("button", name="Relevant", exact=True).click()
    pressed = page.locator("[aria-pressed=true]")
    expect(pressed).to_have_count(1)
    ferry = page.locator(".found-passage").filter(has_text="Upwell")
    ferry.get_by_role("button", name="Not relevant").focus()
    page.keyboard.press("Enter")
    expect(pressed).to_have_count(2)
    expect(ferry.get_by_role("button", name="Not relevant")).to_be_focused()
    visitor.shoot("marking")
    search(page, library)  # asked again, the marks are there
    expect(pressed).to_have_count(2)
    page.keyboard.press("Tab")
    ferry.get_by_role("button", name="Not relevant").click()  # taken back
    expect(pressed).to_have_count(1)
    page.get_by_role("link", name=re.compile("1 label of this question")).click()
    expect(page.locator(".question-list")).to_contain_text(QUESTION)
    visitor.shoot("labelled-set")
    page.get_by_role("link", name=QUESTION).click()
    expect(page.locator(".labelled-text")).to_contain_text("forty ells")
    visitor.shoot("labelled-question")


def test_a_reader_searches_on_a_phone_and_marks_nothing(
    visit: NewVisitor, library: Library
) -> None:
    library.add("well.md", "# The well\n\nThe well at Sallow is forty ells deep.\n")
    visitor = visit("member", width=PHONE)
    search(visitor.page, library)
    check_width(visitor.page)
    expect(visitor.page.locator("#marking")).to_have_count(0)
    visitor.shoot("search-phone")


def test_a_file_is_looked_at_before_it_is_imported(visit: NewVisitor, library: Library) -> None:
    library.add("well.md", "# The well\n\nThe well at Sallow is forty ells deep.\n")
    visitor = visit("corpus-admin")
    page = visitor.page
    page.goto(f"{library.stack.tenant_url}/quality/sets/new/?collection={library.id}")
    page.get_by_label("Name").fill(f"Wells {uuid.uuid4().hex[:6]}")
    rows = f"question,document,passage\n{QUESTION},well.md,forty ells deep\nWhy?,lost.md,\n"
    file = {"name": "set.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    page.get_by_label("File", exact=True).set_input_files([file])  # type: ignore[list-item]
    page.get_by_role("button", name="Check the file").click()
    expect(page.locator("#preview")).to_contain_text("1 question can be taken")
    expect(page.locator("#preview")).to_contain_text("has no document “lost.md”")
    visitor.shoot("upload-set")
    page.get_by_role("button", name="Import 1 question").click()
    expect(page.locator(".question-list")).to_contain_text(QUESTION)
