"""The documents pages: what failed and why, what is gone, and who may change what."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat, CollectionPage
from tests.browser.papers import pdf
from tests.flows.library import Library


def test_a_file_that_cannot_be_read_says_why_and_can_be_tried_again(
    visit: NewVisitor, library: Library
) -> None:
    visitor = visit("corpus-admin")
    collection = CollectionPage(visitor.page, library)
    locked = pdf([[(40, "Sealed.")]], password="sesame")
    collection.drop("locked.pdf", locked, "application/pdf")
    collection.wait_until("locked.pdf", "Failed")
    expect(collection.row("locked.pdf")).to_contain_text("password")
    visitor.shoot("failed")
    collection.row("locked.pdf").get_by_role("button", name=re.compile("^Retry")).click()
    collection.wait_until("locked.pdf", "Failed")
    collection.row("locked.pdf").get_by_role("link").first.click()
    expect(visitor.page.locator(".notice.error")).to_contain_text("password")
    expect(visitor.page.get_by_role("button", name="Retry")).to_be_visible()
    visitor.shoot("failed-document")


def test_files_that_are_not_taken_say_why(visit: NewVisitor, library: Library) -> None:
    library.add("once.md", "# Once\n\nThe same bytes are one document.\n")
    visitor = visit("corpus-admin")
    visitor.expected = ("409",)
    collection = CollectionPage(visitor.page, library)
    collection.drop("empty.txt", b"", "text/plain")
    collection.drop("twice.md", b"# Once\n\nThe same bytes are one document.\n", "text/markdown")
    uploads = visitor.page.locator("#uploads")
    expect(uploads).to_contain_text("The file is empty.")
    expect(uploads.locator(".upload").filter(has_text="twice.md")).to_contain_text("once.md")
    visitor.shoot("refused")
    expect(collection.page.locator("#documents tbody tr")).to_have_count(1)


def test_a_citation_of_a_deleted_document_says_so(visit: NewVisitor, library: Library) -> None:
    visitor = visit("corpus-admin")
    library.add("well.md", "# Well\n\nThe well at Sallow is forty ells deep.\n")
    chat = Chat(visitor.page, library)
    chat.ask_and_wait("How deep is the well at Sallow?")
    conversation = visitor.page.url
    collection = CollectionPage(visitor.page, library)
    collection.row("well.md").get_by_role("button", name=re.compile("^Delete")).click()
    visitor.page.get_by_role("button", name="Delete", exact=True).click()
    expect(visitor.page.locator("#documents")).to_contain_text("No documents yet")
    visitor.page.goto(conversation)
    chat.text.locator("a.cite").first.click()
    expect(chat.sources).to_contain_text("has been deleted")
    expect(chat.sources).to_contain_text("well.md")
    visitor.shoot("deleted")


def test_a_member_reads_and_asks_but_changes_nothing(visit: NewVisitor, library: Library) -> None:
    library.add("well.md", "# Well\n\nThe well at Sallow is forty ells deep.\n")
    visitor = visit("member")
    collection = CollectionPage(visitor.page, library)
    expect(collection.row("well.md")).to_contain_text("Ready")
    for control in ("#upload", "#files", "[data-dialog=delete-document]"):
        expect(visitor.page.locator(control)).to_have_count(0)
    expect(visitor.page.get_by_role("link", name="Edit")).to_have_count(0)
    for page in ("People", "Keys", "Settings"):
        expect(visitor.page.get_by_role("link", name=page, exact=True)).to_have_count(0)
    visitor.expected = ("403",)
    for path in ("people/", "keys/", "settings/", f"documents/{library.id}/edit/"):
        answer = visitor.page.goto(f"{library.stack.tenant_url}/{path}")
        assert answer is not None
        assert answer.status == 403
    chat = Chat(visitor.page, library)
    chat.ask_and_wait("How deep is the well at Sallow?")
    expect(chat.text).to_contain_text("forty")
