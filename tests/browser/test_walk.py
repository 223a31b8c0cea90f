"""The main job in a browser: sign in, upload, ask, see tokens arrive, open a citation."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import ANSWER_MS, Chat, CollectionPage, Visitor
from tests.browser.papers import PAGE_HEIGHT_MM, pdf
from tests.flows.library import LONG_FACT, LONG_QUESTION, Library

WELL = "The well at Sallow is forty ells deep."
WELL_MM = 180.0  # from the top of page 2
QUESTION = "How deep is the well at Sallow?"


def well_pdf() -> bytes:
    return pdf(
        [
            [(40, "Bread, ropes and nets were made in the village.")],
            [(WELL_MM, WELL)],
        ]
    )


def test_from_signing_in_to_a_passage_marked_on_its_page(
    visit: NewVisitor, library: Library
) -> None:
    visitor = visit("")
    visitor.sign_in(visitor.stack.email("corpus-admin"), visitor.stack.password)
    expect(visitor.page).to_have_url(re.compile(r"/t/demo/chat/"))
    visitor.shoot("after-sign-in")
    upload_both_ways(visitor, library)
    chat = Chat(visitor.page, library)
    chat.page.evaluate(WATCH_GROWTH)
    chat.ask(QUESTION)
    chat.wait_for("complete")
    assert chat.page.evaluate("window.growth.length") > 2
    expect(chat.text).to_contain_text("forty ells")
    visitor.shoot("answer")
    chat.text.locator("a.cite").first.click()
    image = chat.sources.locator(".citation-page").filter(has_text=WELL).locator("img")
    expect(image).to_have_js_property("complete", True)
    visitor.shoot("citation")
    assert image.evaluate("image => image.naturalWidth") > 100
    expect(chat.sources.locator("mark").last).to_contain_text("forty ells")
    check_marks(image, chat.sources.locator(".passage-box"))


def upload_both_ways(visitor: Visitor, library: Library) -> None:
    """One by the picker, one by dropping it; both become ready on a page that is not reloaded."""
    collection = CollectionPage(visitor.page, library)
    visitor.page.evaluate("window.sameDocument = true")
    visitor.page.locator("#files").set_input_files(
        {"name": "wells.pdf", "mimeType": "application/pdf", "buffer": well_pdf()}
    )
    expect(collection.row("wells.pdf")).to_be_visible()
    other = pdf([[(50, "Barley is sown in March and cut in August.")]])
    collection.drop("barley.pdf", other, "application/pdf")
    visitor.shoot("uploading")
    for name in ("wells.pdf", "barley.pdf"):
        collection.wait_until(name, "Ready")
    expect(collection.row("wells.pdf")).to_contain_text("2")  # pages
    assert visitor.page.evaluate("window.sameDocument")
    visitor.shoot("collection")


# Every length that the newest answer's text has had.
WATCH_GROWTH = """() => {
    window.growth = [];
    new MutationObserver(() => {
        const body = [...document.querySelectorAll(".answer-body")].at(-1);
        const length = body ? body.textContent.length : 0;
        if (length > (window.growth.at(-1) ?? 0)) window.growth.push(length);
    }).observe(document.getElementById("thread"), {
        subtree: true, childList: true, characterData: true,
    });
}"""


def check_marks(image: Locator, marks: Locator) -> None:
    """One of the boxes lies where the passage was printed on the pictured page."""
    picture = image.bounding_box()
    assert picture is not None
    passage_y = picture["y"] + picture["height"] * (WELL_MM + 3.5) / PAGE_HEIGHT_MM
    boxes = [box for each in marks.all() if (box := each.bounding_box())]
    here = [box for box in boxes if box["y"] <= passage_y <= box["y"] + box["height"]]
    assert here
    for box in here:
        assert box["width"] > 5
        assert picture["x"] <= box["x"]
        assert box["x"] + box["width"] <= picture["x"] + picture["width"] + 1


def test_stop_keeps_the_text_and_frees_the_engine(visit: NewVisitor, library: Library) -> None:
    library.add("coach.md", LONG_FACT)
    chat = Chat(visit("corpus-admin").page, library)
    chat.ask(LONG_QUESTION)
    expect(chat.last).to_have_attribute("data-state", "streaming", timeout=ANSWER_MS)
    expect(chat.text).not_to_be_empty()
    assert library.stack.busy_slots() == 1
    chat.page.get_by_role("button", name="Stop", exact=True).click()
    chat.page.wait_for_timeout(1000)
    assert library.stack.busy_slots() == 0
    chat.wait_for("stopped")
    expect(chat.text).not_to_be_empty()
    expect(chat.last.locator(".answer-end")).to_contain_text("You stopped this answer")
    kept = chat.text.inner_text()
    chat.page.reload()
    chat.wait_for_connection()
    assert chat.text.inner_text() == kept
    expect(chat.last).to_have_attribute("data-state", "stopped")


def test_a_second_answer_replaces_the_first(visit: NewVisitor, library: Library) -> None:
    library.add("mint.md", "# Mint\n\nMint tea is poured from a height of thirty centimetres.\n")
    chat = Chat(visit("corpus-admin").page, library)
    chat.ask_and_wait("From what height is mint tea poured?")
    first = chat.last.get_attribute("data-answer")
    chat.last.get_by_role("button", name="Regenerate").click()
    expect(chat.last).not_to_have_attribute("data-answer", first or "")
    chat.wait_for("complete")
    expect(chat.answers).to_have_count(1)
    expect(chat.text).to_contain_text("thirty")
    chat.page.reload()
    expect(chat.answers).to_have_count(1)
    expect(chat.text).to_contain_text("thirty")


def test_what_the_documents_do_not_hold_is_said(visit: NewVisitor, library: Library) -> None:
    library.add("mint.md", "# Mint\n\nMint tea is poured from a height of thirty centimetres.\n")
    chat = Chat(visit("corpus-admin").page, library)
    chat.ask_and_wait("Who won the chess championship of 1972?")
    expect(chat.last).to_have_attribute("data-kind", "not_found")
    expect(chat.last.locator(".answer-sources")).to_contain_text("mint.md")
