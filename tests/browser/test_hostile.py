"""Script planted in documents: shown, never run, with and without the browser's own guard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat, CollectionPage
from tests.flows.library import Library, make_library
from tests.running_stack import Stack, eventually

SCRIPT = "<script>window.__pwned = 1</script>"
IMAGE = "<img src=x onerror=window.__pwned=1>"
LINK = "[the chart](javascript:window.__pwned=1)"
HOSTILE = f"The password of the cellar door is {IMAGE} {LINK} {SCRIPT} swordfish."
QUESTION = "What is the password of the cellar door?"


@pytest.fixture(scope="module")
def trap(stack: Stack) -> Library:
    made = make_library(stack, name=f"Trap {IMAGE}")
    made.add(f"cellar {IMAGE}.md", f"# Cellar {IMAGE}\n\n{HOSTILE}\n")
    made.add(
        "page.html",
        f"<html><head>{SCRIPT}</head><body onload='window.__pwned=1'><h1>Attic</h1>"
        f"<p>The attic is locked with a brass key.</p>{IMAGE}{SCRIPT}"
        "<svg onload='window.__pwned=1'></svg></body></html>",
    )
    made.add("plain.txt", f"{SCRIPT}{IMAGE} The roof is thatched with reed. {LINK}")
    return made


@pytest.mark.parametrize("bypass_csp", [False, True], ids=["csp", "no-csp"])
def test_nothing_planted_in_a_document_runs(
    visit: NewVisitor, trap: Library, bypass_csp: bool
) -> None:
    visitor = visit("corpus-admin", bypass_csp=bypass_csp)
    page = visitor.page
    collection = CollectionPage(page, trap)
    expect(collection.row("cellar")).to_contain_text("onerror=window.__pwned=1")
    expect(page.locator("h1")).to_have_text(trap.name)
    collection.row("cellar").get_by_role("link").first.click()
    expect(page.locator(".page-text").first).to_contain_text("swordfish")
    assert page.evaluate("window.__pwned") is None
    chat = Chat(page, trap)
    for question in (QUESTION, "How is the attic locked?", f"{SCRIPT}{IMAGE} {QUESTION}"):
        chat.ask_and_wait(question)
        assert page.evaluate("window.__pwned") is None
    visitor.shoot(f"hostile-{bypass_csp}")
    chat.answers.first.locator(".answer-foot [data-show-sources]").click()
    chat.sources.locator(".source a").first.click()
    expect(chat.sources.locator("mark").first).to_contain_text("swordfish")
    page.reload()
    chat.wait_for_connection()
    expect(chat.answers).to_have_count(3)
    assert page.evaluate("window.__pwned") is None
    assert page.locator("#chat script, #chat [onerror], #chat a[href^=javascript]").count() == 0


def test_a_passage_quoted_word_for_word_does_not_run(visit: NewVisitor, trap: Library) -> None:
    """The model's own words are left to chance; a quotation holds the hostile text for sure."""
    back = trap.stack.kill("engine")
    visitor = visit("corpus-admin", bypass_csp=True)
    chat = Chat(visitor.page, trap)
    chat.ask_and_wait(QUESTION)
    expect(chat.last).to_have_attribute("data-kind", "quoted")
    expect(chat.text).to_contain_text(IMAGE)
    expect(chat.text).to_contain_text(SCRIPT)
    expect(chat.last.locator(".answer-notices")).to_contain_text("quoted")
    assert visitor.page.evaluate("window.__pwned") is None
    visitor.shoot("quoted")
    visitor.page.reload()
    expect(chat.text).to_contain_text(IMAGE)
    assert visitor.page.evaluate("window.__pwned") is None
    eventually(back, within_s=30, what="the engine to come back")
