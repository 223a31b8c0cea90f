"""Themes, and a phone."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat, CollectionPage
from tests.flows.library import Library

PHONE = 375


def test_a_chosen_theme_lasts_over_pages(visit: NewVisitor, library: Library) -> None:
    visitor = visit("corpus-admin")
    page = visitor.page
    page.emulate_media(color_scheme="light")
    page.goto(f"{library.stack.tenant_url}/documents/")
    light = background(page)
    page.locator("[data-theme-toggle]").click()
    dark = background(page)
    assert brightness(dark) < 80 < 200 < brightness(light)
    page.reload()
    assert background(page) == dark
    CollectionPage(page, library)
    assert background(page) == dark
    visitor.shoot("dark")
    page.locator("[data-theme-toggle]").click()
    assert background(page) == light


def test_a_phone_has_a_composer_and_sources_in_a_sheet(visit: NewVisitor, library: Library) -> None:
    library.add("well.md", "# Well\n\nThe well at Sallow is forty ells deep.\n")
    visitor = visit("corpus-admin", width=PHONE)
    chat = Chat(visitor.page, library)
    chat.ask_and_wait("How deep is the well at Sallow?")
    check_width(visitor.page)
    box = chat.composer.bounding_box()
    assert box is not None
    assert box["width"] > PHONE * 0.6
    assert box["y"] + box["height"] <= 860
    expect(chat.page.get_by_role("button", name="Send")).to_be_in_viewport()
    visitor.shoot("phone")
    expect(chat.sources).not_to_be_in_viewport()
    chat.text.locator("a.cite").first.click()
    expect(chat.sources.locator("mark")).to_be_in_viewport()
    visitor.shoot("phone-sheet")
    sheet = chat.sources.bounding_box()
    assert sheet is not None
    assert sheet["width"] == PHONE
    chat.page.get_by_role("button", name="Close sources").click()
    expect(chat.sources).not_to_be_in_viewport()
    chat.page.locator(".drawer-button").click()
    expect(chat.page.locator("#conversation-list li").first).to_be_in_viewport()
    visitor.shoot("phone-drawer")
    for path in ("documents/", f"documents/{library.id}/"):
        visitor.page.goto(f"{library.stack.tenant_url}/{path}")
        check_width(visitor.page)


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def brightness(colour: str) -> float:
    """Mean of the channels, 0 to 255, of an `rgb(…)` colour."""
    channels = [float(part) for part in colour.strip("rgba()").split(",")[:3]]
    return sum(channels) / 3


def check_width(page: Page) -> None:
    """Nothing makes the page scroll sideways."""
    overflow = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow == 0
