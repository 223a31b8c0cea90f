"""Load tests on pages: one of the engine, from the form to its knee, and two side by side."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.axe import in_both_themes
from tests.browser.conftest import NewVisitor
from tests.browser.test_looks import PHONE, check_width

# Six to twelve points of some four seconds on the engine, and a worker that takes them up.
MEASURED_MS = 180_000


def start(page: Page, name: str, *, mode: str) -> None:
    """A small test of the engine; its loads lie around what it can do."""
    page.goto("/ops/capacity/tests/new/")
    page.get_by_label("Name").fill(name)
    for label, value in (
        ("Prompt tokens, mean", "20"),
        ("Prompt tokens, standard deviation", "0"),
        ("Answer tokens, mean", "6"),
        ("Answer tokens, standard deviation", "0"),
        ("First token within, ms", "5000"),
        ("Each token after it within, ms", ""),
        ("Loads", "4, 24"),
        ("Repeats of each", "1"),
    ):
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_label("What is done").select_option(mode)
    page.get_by_text("Bounds", exact=True).click()
    page.get_by_label("A point lasts, seconds").fill("3")
    page.get_by_label("The whole test, minutes at most").fill("1.5")


def test_a_load_test_is_started_watched_read_and_compared(visit: NewVisitor) -> None:
    visitor = visit("ops")
    page = visitor.page
    page.goto("/ops/capacity/")
    expect(page.get_by_text("Nothing was measured yet")).to_be_visible()
    page.get_by_role("link", name="Find the knee").click()

    start(page, "Knee of the engine", mode="sweep+knee")
    expect(page.locator("#bounds")).to_contain_text("At most")
    expect(page.get_by_label("Address", exact=True)).to_be_hidden()
    visitor.shoot("loadtest-form")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_role("heading", name="Knee of the engine")).to_be_visible()
    expect(page.locator("#test-state progress")).to_be_visible()
    # The figures come as points are measured, without the page being loaded again.
    expect(page.get_by_role("heading", name="At each load")).to_be_visible(timeout=MEASURED_MS)
    visitor.shoot("loadtest-running")
    expect(page.get_by_role("button", name="Run again")).to_be_visible(timeout=MEASURED_MS)

    expect(page.locator(".knee-words")).to_contain_text(re.compile("Up to about|No knee"))
    expect(page.locator(".plot").first).to_be_visible()
    expect(page.get_by_text("llama.cpp").first).to_be_visible()
    visitor.shoot("loadtest-done")
    first = page.url
    page.locator("#points tbody a").first.click()
    expect(page.locator("svg.lane").first).to_be_visible()
    visitor.shoot("loadtest-point")

    start(page, "The engine, swept", mode="sweep")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("link", name="Stop…").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("This load test was stopped.")).to_be_visible()

    page.goto("/ops/capacity/tests/")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare the chosen").click()
    expect(page.get_by_role("heading", name="2 load tests compared")).to_be_visible()
    page.set_viewport_size({"width": PHONE, "height": 800})
    for path in (first, page.url, "/ops/capacity/"):
        page.goto(path)
        check_width(page)
        assert in_both_themes(page) == []
    visitor.shoot("loadtest-phone")
