"""What tokens cost, and the memo of it: seen, printed on one sheet, and readable by everybody."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pypdfium2
import pytest
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import in_both_themes
from tests.browser.furnished import Furnished
from tests.capacity.factories import make_test

COSTS = "/ops/capacity/costs/"
PHONE = {"width": 390, "height": 844}
LONG = "A rather long name of a load test that somebody gave it, with everything it was about " * 2


def shoot(page: Page, name: str) -> None:
    """For people, where RAGSITE_SCREENSHOTS names a folder."""
    if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture
def load_test_id(furnished: Furnished) -> uuid.UUID:
    finished: datetime = timezone.now() - timedelta(hours=2)
    return furnished.ask(lambda: make_test(name=LONG[:190], finished_at=finished)).id


@pytest.fixture
def ops(browser: Browser, furnished: Furnished) -> Iterator[BrowserContext]:
    context = furnished.open(browser, "root", viewport={"width": 1280, "height": 900})
    yield context
    context.close()


def test_costs_of_a_measured_machine_and_the_memo_of_them(
    ops: BrowserContext, load_test_id: uuid.UUID
) -> None:
    page = ops.new_page()
    page.goto(f"{COSTS}?test={load_test_id}")
    expect(page.get_by_role("heading", name="What it costs", level=1)).to_be_visible()
    # 0.08 dollars an hour over 38 tokens a second.
    expect(page.locator("#cost-table tbody tr").first).to_contain_text("$0.585")
    shoot(page, "costs-light")
    page.get_by_text("Volume and what else it takes").click()
    page.get_by_label("Million tokens a month").fill("40")
    # The dearest one, so that owning wins somewhere.
    dearest = page.get_by_label("Managed API to compare with")
    dearest.select_option(index=dearest.locator("option").count() - 1)
    page.get_by_role("button", name="Compute").click()
    expect(page.locator("#even-words")).to_contain_text("owning costs no more than")
    expect(page.locator("#month-table")).to_contain_text("40 million")
    assert in_both_themes(page) == []
    shoot(page, "costs-dark")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    check_width(page)
    shoot(page, "costs-phone")
    page.get_by_role("link", name="One-page memo").click()
    look_at_the_memo(page)
    page.goto(f"{COSTS}price/?test={load_test_id}")
    assert in_both_themes(page) == []
    check_width(page)
    shoot(page, "costs-price")


def look_at_the_memo(page: Page) -> None:
    expect(page.get_by_role("heading", name="What would reverse it")).to_be_visible()
    check_width(page)
    assert in_both_themes(page) == []
    shoot(page, "memo-phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    shoot(page, "memo-dark")
    for paper in ("A4", "Letter"):
        sheet = page.pdf(format=paper, prefer_css_page_size=True)
        document = pypdfium2.PdfDocument(io.BytesIO(sheet))
        assert len(document) == 1, f"{len(document)} sheets of {paper}"
        if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
            (Path(folder) / f"memo-{paper}.pdf").write_bytes(sheet)
            document[0].render(scale=1.5).to_pil().save(Path(folder) / f"memo-{paper}.png")
    with page.expect_download() as download:
        page.get_by_role("link", name="Markdown").click()
    assert download.value.suggested_filename.startswith("cost-memo-")


def check_width(page: Page) -> None:
    """Nothing is out of sight to the right."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
