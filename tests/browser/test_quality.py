"""The quality room: a set is run, its figures appear, and two runs are told apart."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Visitor
from tests.browser.test_looks import PHONE, check_width
from tests.flows.library import Library, site_client

FACTS = {
    "well.md": "The well at Sallow is forty ells deep.",
    "ferry.md": "The ferry at Upwell leaves at nine in the morning.",
    "mill.md": "The mill at Thornby grinds oats and barley.",
    "bridge.md": "The bridge at Granite Pass was built of larch.",
}
QUESTIONS = {
    "How deep is the well at Sallow?": "well.md",
    "When does the ferry at Upwell leave?": "ferry.md",
    "What does the mill at Thornby grind?": "mill.md",
    "What is the bridge at Granite Pass built of?": "bridge.md",
}
UNANSWERABLE = "Who won the chess tournament in Vienna?"
RUN_MS = 90_000


@pytest.fixture
def measured(library: Library) -> str:
    """The name of a labelled set over a collection of four documents."""
    for name, fact in FACTS.items():
        library.add(name, f"# {name}\n\n{fact}\n")
    lines = [
        {"id": str(n), "question": text, "labels": [{"document": path}], "slices": ["villages"]}
        for n, (text, path) in enumerate(QUESTIONS.items())
    ]
    lines.append({"id": "none", "question": UNANSWERABLE, "unanswerable": True})
    name = f"Villages {uuid.uuid4().hex[:6]}"
    content = "\n".join(map(json.dumps, lines)).encode()
    with site_client(library.stack, "corpus-admin") as site:
        answer = site.post(
            "quality/sets/new/",
            data={"name": name, "collection": library.id, "action": "import"},
            files={"upload": ("villages.jsonl", content)},
        )
    assert answer.status_code == 302, answer.text
    return name


def open_overview(page: Page, library: Library) -> None:
    page.goto(f"{library.stack.tenant_url}/quality/")


def run_and_wait(page: Page, library: Library, name: str, *, without: str = "") -> str:
    """Start a run of the set from the overview and see it through; the address of its page."""
    open_overview(page, library)
    card = page.locator(".set-card").filter(has_text=name)
    if without:
        card.get_by_text("Run with…").click()
        card.get_by_label(without).uncheck()
        card.get_by_role("button", name="Run", exact=True).click()
    else:
        card.get_by_role("button", name="Run now").click()
    expect(page.locator("#run-state")).to_contain_text(re.compile("Waiting|Running"))
    expect(page.get_by_role("heading", name="Stage by stage")).to_be_visible(timeout=RUN_MS)
    return page.url


def test_a_set_is_run_read_and_compared(visit: NewVisitor, library: Library, measured: str) -> None:
    visitor = visit("corpus-admin")
    page = visitor.page
    run_and_wait(page, library, measured)
    run_and_wait(page, library, measured, without="Reranker")
    expect(page.get_by_role("row", name=re.compile("^Reranked"))).to_have_count(0)
    run = run_and_wait(page, library, measured)
    expect(page.get_by_role("row", name=re.compile("^Reranked"))).to_have_count(1)
    expect(page.locator(".missed")).to_contain_text("Of 4 questions, 4 had a right passage")
    visitor.shoot("quality-run")
    look_at_a_question(page)
    page.get_by_role("link", name=re.compile("^Run of")).click()
    use_a_limit(visitor)
    page.get_by_text("Compare with…").click()
    page.locator(".others a").first.click()
    expect(page.get_by_role("row", name=re.compile("^Reranking"))).to_contain_text("no")
    expect(page.get_by_role("row", name=re.compile(r"^nDCG@10"))).to_contain_text(
        re.compile("chance|same")
    )
    visitor.shoot("quality-compare")
    comparison = page.url
    open_overview(page, library)
    card = page.locator(".set-card").filter(has_text=measured)
    card.locator(".figures-table").scroll_into_view_if_needed()
    page.mouse.wheel(0, 400)
    expect(card.get_by_text("Paired on the 4 questions")).to_be_visible()
    expect(card.locator(".plot .point")).to_have_count(6)  # two of the three runs, three lines
    visitor.shoot("quality")
    check_on_a_phone(visit, [run, comparison, page.url])


CHOOSE_ON_ARRIVAL = """(outcome) => addEventListener("htmx:afterSwap", () => setTimeout(() => {
  const choice = document.querySelector("select[name=outcome]");
  choice.value = outcome;
  choice.dispatchEvent(new Event("change", { bubbles: true }));
}), { once: true })"""


def look_at_a_question(page: Page) -> None:
    page.get_by_label("What became of them").select_option(label="Without an answer")
    expect(page.locator(".questions-table tbody tr")).to_have_count(1)
    expect(page.locator(".questions-table")).to_contain_text(UNANSWERABLE)
    # A choice made in the moment in which the part has been exchanged counts as well.
    page.evaluate(CHOOSE_ON_ARRIVAL, "found")
    page.get_by_label("What became of them").select_option(label="All")
    expect(page.locator(".questions-table tbody tr")).to_have_count(4)
    page.get_by_role("link", name="How deep is the well at Sallow?").click()
    expect(page.locator(".ranked-passage.relevant").first).to_contain_text("forty ells deep")


def use_a_limit(visitor: Visitor) -> None:
    page = visitor.page
    limit = page.get_by_label("Limit", exact=True)
    # Other tests ask the same tenant: the limit before is taken back below.
    limit.select_option(index=0)
    page.get_by_role("button", name="Use this limit").click()
    expect(page.locator(".notice.success")).to_contain_text("from now on")
    visitor.shoot("quality-limit")
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_text("Before, it was")).to_be_visible()


def check_on_a_phone(visit: NewVisitor, addresses: list[str]) -> None:
    visitor = visit("corpus-admin", width=PHONE)
    for address in addresses:
        visitor.page.goto(address)
        check_width(visitor.page)
    visitor.shoot("quality-phone")
