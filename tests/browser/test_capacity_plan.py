"""The planner in a browser: a plan appears as it is typed, shows its formulas, and can be kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.capacity.catalogue.seeding import seed_catalogue
from tests.browser.axe import in_both_themes
from tests.browser.furnished import Furnished
from tests.browser.test_looks import check_width

pytestmark = pytest.mark.slow


def shoot(page: Page, name: str) -> None:
    """For people, where RAGSITE_SCREENSHOTS names a folder."""
    if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_a_plan_in_six_steps_is_computed_as_it_is_typed(
    browser: Browser, furnished: Furnished
) -> None:
    furnished.ask(seed_catalogue)
    context = furnished.open(browser, "root", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto("/ops/capacity/plan/")
    page.get_by_role("link", name="8B on one GPU").click()
    expect(page.locator(".plan-short")).to_contain_text("Fits")
    for step in range(1, 7):
        expect(page.locator(f"#step-{step}")).to_be_visible()
    # A formula with its numbers, out of sight until it is asked for.
    formula = page.get_by_text("2 × 32 × 8 × 128 × 2").first
    expect(formula).to_be_hidden()
    page.locator(".known", has_text="KV cache of one token").locator("summary").click()
    expect(formula).to_be_visible()
    shoot(page, "plan-light")

    # Another model does not fit on one GPU; what would make it fit is a link to a plan.
    page.get_by_label("Model", exact=True).select_option("Llama-3.1-70B")
    expect(page.locator("#step-1")).to_contain_text("It does not fit")
    expect(page).to_have_url(re.compile("model=Llama-3.1-70B"))
    page.get_by_role("link", name="4 GPUs of this kind instead of 1").click()
    expect(page.locator(".plan-short")).to_contain_text("Fits")

    # What cannot be is said at its field, and what one was typing stays.
    page.get_by_label("Requests a second").fill("-1")
    page.get_by_label("Requests a day").focus()
    expect(page.locator("#says-peak_per_s")).to_contain_text("Give a number from")
    expect(page.get_by_label("Requests a day")).to_be_focused()
    page.get_by_label("Requests a second").fill("40")
    page.get_by_label("Requests a second").press("Enter")
    expect(page.locator("#says-peak_per_s")).to_be_empty()
    expect(page.locator("#step-3")).to_contain_text("At your peak of 40 requests a second")

    kept = page.url
    page.goto("about:blank")
    page.goto(kept)
    expect(page.locator("#step-3")).to_contain_text("At your peak of 40 requests a second")
    page.locator("#step-2").get_by_text("The same figures as a table").click()
    assert in_both_themes(page) == []
    shoot(page, "plan-dark")
    page.set_viewport_size({"width": 390, "height": 844})
    check_width(page)
    shoot(page, "plan-phone")
    context.close()
