"""Pictures of the quality pages for `docs/`, taken of a running demo.

    HNSW_ABOVE_CHUNKS=100 make run
    .venv/bin/python -m tests.browser.pictures http://127.0.0.1:8000

Runs are started, a curve is measured and a passage is marked as a person would do it, so what the
pictures show was measured on the demo's own documents and questions. The low line gives the few
passages of the demo an HNSW index, for the curve to be one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import CHROMIUM_ARGUMENTS, find_chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SET = "Questions about the documentation"
WIDTH, HEIGHT = 1100, 1000
LONG_MS = 600_000


def main() -> None:
    site = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    people = json.loads((Path(os.environ.get("VAR_DIR", "var")) / "demo.json").read_text())
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=CHROMIUM_ARGUMENTS
        )
        page = _signed_in(browser, site, people["password"])
        first = _run(page, site)
        second = _run(page, site, without="Reranker")
        _shoot(page, f"{site}/t/demo/quality/", "quality")
        _shoot(page, first, "run")
        page.goto(f"{site}/t/demo/quality/compare/{_id(second)}/{_id(first)}/")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        _shoot(page, page.url, "comparison")
        _mark(page, site)
        _curve(page, site)
        browser.close()


def _signed_in(browser: Browser, site: str, password: str) -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, base_url=site)
    page.goto(f"{site}/accounts/login/")
    page.locator("[name=login]").fill("corpus-admin@demo.example")
    page.locator("[name=password]").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile("/t/|/$"))
    return page


def _run(page: Page, site: str, *, without: str = "") -> str:
    page.goto(f"{site}/t/demo/quality/")
    card = page.locator(".set-card").filter(has_text=SET)
    if without:
        card.get_by_text("Run with…").click()
        card.get_by_label(without).uncheck()
        card.get_by_role("button", name="Run", exact=True).click()
    else:
        card.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", name="Stage by stage")).to_be_visible(timeout=LONG_MS)
    return page.url


def _mark(page: Page, site: str) -> None:
    page.goto(f"{site}/t/demo/search/")
    page.get_by_label("Question", exact=True).fill("How long is the old embedding index kept?")
    page.keyboard.press("Enter")
    found = page.locator(".found-passage")
    expect(found.first).to_be_visible(timeout=LONG_MS)
    page.get_by_label("Mark passages into").select_option(label=f"{SET} (ragsite documentation)")
    found.first.get_by_role("button", name="Relevant", exact=True).click()
    expect(page.locator("[aria-pressed=true]")).to_have_count(1)
    page.screenshot(path=FOLDER / "marking.png")


def _curve(page: Page, site: str) -> None:
    page.goto(f"{site}/t/demo/quality/tuning/")
    page.get_by_role("button", name="Measure").click()
    expect(page.get_by_role("heading", name=re.compile("^Curve of"))).to_be_visible()
    expect(page.locator("#curve-state")).to_have_count(0, timeout=LONG_MS)
    _shoot(page, page.url, "curve")


def _shoot(page: Page, address: str, name: str) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=FOLDER / f"{name}.png", full_page=name != "run")


def _id(address: str) -> str:
    return address.rstrip("/").rsplit("/", 1)[-1]


if __name__ == "__main__":
    main()
