"""The curve: measured, read, its proposal applied, and what was before it taken back."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import NewVisitor
from tests.browser.test_looks import PHONE, check_width
from tests.browser.test_quality import measured  # noqa: F401 - a fixture
from tests.flows.library import Library

CURVE_MS = 180_000


def test_a_curve_is_measured_and_a_setting_applied_and_taken_back(
    visit: NewVisitor,
    library: Library,
    measured: str,  # noqa: F811
) -> None:
    visitor = visit("corpus-admin")
    page = visitor.page
    page.goto(f"{library.stack.tenant_url}/quality/tuning/")
    expect(page.locator("#profiles")).to_be_visible()
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Curve of"))).to_be_visible()
    expect(page.locator("#curve-state")).to_have_count(0, timeout=CURVE_MS)
    expect(page.get_by_role("table").first).to_be_visible()
    visitor.shoot("curve")
    page.set_viewport_size({"width": PHONE, "height": 800})
    check_width(page)
    visitor.shoot("curve-phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name=re.compile("^(Apply|Use)")).first.click()
    page.goto(f"{library.stack.tenant_url}/quality/tuning/")
    expect(page.locator("#profiles")).to_contain_text(re.compile("Set by hand|Proposed by"))
    visitor.shoot("tuning")
