"""The documents pages: what failed and why, what is gone, and who may change what."""

from __future__ import annotations

import re
from pathlib import Path

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
    collection.row("locked.pdf").get_by_role("link", name="locked.pdf", exact=True).click()
    password = visitor.page.get_by_label("Password of the file")
    password.fill("open sesame")
    visitor.page.get_by_role("button", name="Open the file").click()
    expect(visitor.page.locator(".errorlist")).to_contain_text("does not open")
    expect(password).to_have_value("")
    visitor.shoot("failed-document")
    password.fill("sesame")
    visitor.page.get_by_role("button", name="Open the file").click()
    expect(visitor.page.locator(".page-text")).to_contain_text("Sealed.", timeout=60_000)


def test_files_that_are_not_taken_say_why(visit: NewVisitor, library: Library) -> None:
    visitor = visit("corpus-admin")
    collection = CollectionPage(visitor.page, library)
    uploads = visitor.page.locator("#uploads")
    collection.drop("empty.txt", b"", "text/plain")
    expect(uploads.locator(".upload").filter(has_text="empty.txt")).to_contain_text("is empty")
    visitor.shoot("refused")
    collection.drop("well.md", b"# Well\n\nIt is deep.\n", "text/markdown")
    expect(uploads).to_contain_text("1 received")
    collection.drop("well.md", b"# Well\n\nIt is deep.\n", "text/markdown")
    expect(uploads).to_contain_text("1 unchanged")
    collection.drop("well.md", b"# Well\n\nIt is deeper.\n", "text/markdown")
    expect(uploads).to_contain_text("1 new version")
    expect(collection.page.locator("#documents tbody tr")).to_have_count(1)
    expect(collection.row("well.md")).to_contain_text("Version 2")


def test_a_folder_is_sent_with_its_paths(
    visit: NewVisitor, library: Library, tmp_path: Path
) -> None:
    for name in ("wells/deep.md", "wells/old/dry.md", "wells/.hidden", "wells/old/Thumbs.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n\nThis is {name}.\n")
    visitor = visit("corpus-admin")
    collection = CollectionPage(visitor.page, library)
    visitor.page.locator("#folder").set_input_files(tmp_path / "wells")
    expect(visitor.page.locator("#uploads")).to_contain_text("All 2 files arrived")
    for name, folder in (("deep.md", "wells"), ("dry.md", "wells/old")):
        collection.wait_until(name, "Ready")
        expect(collection.row(name).locator(".names")).to_contain_text(folder)
    visitor.page.get_by_role("searchbox", name="Find by name").fill("OLD")
    expect(collection.page.locator("#documents tbody tr")).to_have_count(1)
    expect(visitor.page).to_have_url(re.compile(r"\?q=OLD$"))
    visitor.shoot("filtered")


def test_many_files_are_a_few_figures(visit: NewVisitor, library: Library, tmp_path: Path) -> None:
    for n in range(120):
        (tmp_path / f"note-{n}.txt").write_text(f"Note {n} is about the number {n}.")
    visitor = visit("corpus-admin")
    CollectionPage(visitor.page, library)
    visitor.page.locator("#folder").set_input_files(tmp_path)
    uploads = visitor.page.locator("#uploads")
    assert uploads.locator(".upload").count() <= 3
    expect(uploads).to_contain_text("All 120 files arrived", timeout=60_000)
    expect(visitor.page.locator(".batch")).to_contain_text("of 120 done")
    expect(visitor.page.locator("#documents tbody tr")).to_have_count(50)
    visitor.shoot("many")


def test_an_upload_can_be_cancelled(visit: NewVisitor, library: Library, tmp_path: Path) -> None:
    for n in range(400):
        (tmp_path / f"note-{n}.txt").write_text(f"Note {n} is about the number {n}.")
    visitor = visit("corpus-admin")
    CollectionPage(visitor.page, library)
    visitor.page.locator("#folder").set_input_files(tmp_path)
    visitor.page.get_by_role("button", name="Cancel").click()
    expect(visitor.page.locator(".uploads-title")).to_contain_text("Cancelled after")
    visitor.page.get_by_role("button", name="Dismiss").click()
    expect(visitor.page.locator("#uploads")).to_be_hidden()


def test_a_question_is_tried_and_its_passage_opened_on_the_page(
    visit: NewVisitor, library: Library
) -> None:
    paper = pdf([[(40, "Barley is sown in March.")], [(80, "The well is forty ells deep.")]])
    document = library.add("well.pdf", paper)
    visitor = visit("member")
    page = visitor.page
    page.goto(f"{library.stack.tenant_url}/documents/{library.id}/{document}/")
    page.get_by_role("searchbox").fill("How deep is the well?")
    page.get_by_role("button", name="Search", exact=True).click()
    found = page.locator(".found-passage").first
    expect(found).to_contain_text("forty ells", timeout=30_000)
    expect(found).to_contain_text("Words (BM25)")
    visitor.shoot("tried")
    found.get_by_role("link").click()
    expect(page.locator("#page-2 mark")).to_contain_text("forty ells")
    expect(page.locator("#page-2 .passage-box")).not_to_have_count(0, timeout=30_000)
    visitor.shoot("tried-marked")
    page.get_by_label("Show passages").check()
    expect(page.locator("#page-1 .passage-mark")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Show passages")).to_be_checked()


def test_a_cited_version_opens_after_it_was_replaced(visit: NewVisitor, library: Library) -> None:
    library.add("well.md", "# Well\n\nThe well at Sallow is forty ells deep.\n")
    visitor = visit("corpus-admin")
    chat = Chat(visitor.page, library)
    chat.ask_and_wait("How deep is the well at Sallow?")
    library.add("well.md", "# Well\n\nThe well at Sallow is sixty ells deep.\n")
    chat.text.locator("a.cite").first.click()
    expect(chat.sources.locator("mark").first).to_contain_text("forty ells")
    expect(chat.sources).to_contain_text("A newer version has replaced it")
    visitor.shoot("replaced")
    chat.sources.get_by_role("link", name="Open document").click()
    expect(visitor.page.locator(".notice.warning")).to_contain_text("This is version 1")
    visitor.page.locator(".notice.warning").get_by_role("link").click()
    expect(visitor.page.locator(".page-text")).to_contain_text("sixty ells")


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
