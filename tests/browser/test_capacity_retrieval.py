"""Planning retrieval in a browser: what is typed is answered at once, and can be kept."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import in_both_themes
from tests.browser.furnished import Furnished
from tests.capacity.test_retrieval_planning import measured

pytestmark = pytest.mark.slow


def test_a_plan_of_retrieval_is_computed_as_it_is_typed(
    browser: Browser, furnished: Furnished
) -> None:
    furnished.ask(measured)
    context = furnished.open(browser, "root", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto("/ops/capacity/retrieval/")
    expect(page.get_by_role("heading", name="One PostgreSQL keeps the promise")).to_be_visible()
    page.get_by_text("What you promise").click()
    page.get_by_label("Searches a second").fill("100000")
    page.get_by_label("Searches a second").press("Enter")
    expect(page.get_by_role("heading", name="Read replicas")).to_be_visible()
    expect(page).to_have_url(re.compile("per_s=100000"))
    page.get_by_label("Searches a second").fill("0")
    page.get_by_label("Searches a second").press("Enter")
    expect(page.get_by_text("Give a number from 0.001")).to_be_visible()
    page.get_by_label("Searches a second").fill("10")
    page.get_by_label("Searches a second").press("Enter")
    expect(page.locator("svg.plot")).to_be_visible()
    page.get_by_text("What was measured", exact=True).click()
    assert in_both_themes(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
