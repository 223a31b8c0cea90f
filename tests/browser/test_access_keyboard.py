"""The site by keyboard alone, enlarged, with wide letters, without motion, in forced colours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.addresses import pages
from tests.browser.focus import contrast, focused, to_the_top, walk
from tests.browser.furnished import Furnished

RING_CONTRAST = 3.0  # WCAG 1.4.11
ZOOMED = 640  # px across: 1280 at 200 %
REFLOWED = 320  # px across: 1280 at 400 % (WCAG 1.4.10)
# WCAG 1.4.12
SPACING = """
* {
    line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important;
}
p { margin-block-end: 2em !important }
"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# What stands out of the window and cannot be scrolled to.
CUT = """() => {
    const reachable = (each) => {
        for (let up = each; up; up = up.parentElement) {
            const style = getComputedStyle(up);
            const scrolls = /auto|scroll/.test(style.overflowX) && up.scrollWidth > up.clientWidth;
            if (scrolls || style.position === "fixed" || style.visibility === "hidden") return true;
        }
        return Boolean(each.closest(".visually-hidden"));
    };
    return [...document.querySelectorAll("main :is(a, button, input, h1, h2, p, td)")]
        .filter((each) => {
            const box = each.getBoundingClientRect();
            const outside = box.left < -1 || box.right > innerWidth + 1;
            return outside && box.width && each.checkVisibility() && !reachable(each);
        })
        .map((each) => each.outerHTML.slice(0, 100));
}"""
# Text that its box cuts off, apart from what is shortened with dots.
CLIPPED = """() => [...document.querySelectorAll("button, .button, label, th, h1, h2, summary")]
    .filter((each) => {
        const style = getComputedStyle(each);
        return each.offsetParent && !each.closest(".visually-hidden")
            && style.overflowY === "hidden" && style.textOverflow !== "ellipsis"
            && each.scrollHeight > each.clientHeight + 1;
    })
    .map((each) => each.outerHTML.slice(0, 100))"""
MOVING = """() => document.getAnimations()
    .filter((each) => each.playState === "running")
    .filter((each) => each.effect.getComputedTiming().activeDuration > 20)
    .map((each) => `${each.animationName} of ${each.effect.target?.className}`)"""
# The focus is neither in the dialog nor, between two rounds, with the browser itself.
OUTSIDE = """() => document.activeElement !== document.body
    && document.activeElement.closest("dialog") === null"""
SMALL = """() => [...document.querySelectorAll("input, select, textarea")]
    .filter((each) => !["hidden", "checkbox", "radio", "file", "range"].includes(each.type))
    .filter((each) => parseFloat(getComputedStyle(each).fontSize) < 16)
    .map((each) => each.outerHTML.slice(0, 80))"""

Open = Callable[..., Page]


@pytest.fixture
def show(browser: Browser, furnished: Furnished) -> Iterator[Open]:
    """Opens `chat`, `documents` and so on as a manager."""
    made = []

    def open_page(name: str, *, width: int = 1280, **options: object) -> Page:
        size = {"width": width, "height": 860}
        context = furnished.open(
            browser, "manager", viewport=size, service_workers="block", **options
        )
        made.append(context)
        page = context.new_page()
        page.goto(address(furnished, name))
        return page

    yield open_page
    for context in made:
        context.close()


def address(furnished: Furnished, name: str) -> str:
    world = furnished.world
    collection = f"/t/acme/documents/{world['collection_id']}/"
    return {
        "chat": f"/t/acme/chat/{world['conversation_id']}/",
        "empty chat": "/t/acme/chat/",
        "collections": "/t/acme/documents/",
        "collection": collection,
        "document": f"{collection}{world['document_id']}/",
        "people": "/t/acme/people/",
        "run": f"/t/acme/quality/runs/{world['run_id']}/",
        "costs": "/t/acme/costs/",
    }[name]


WALKED = ["chat", "empty chat", "collections", "collection", "document", "people", "run", "costs"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", WALKED)
def test_tab_goes_through_a_page_and_can_be_seen(show: Open, name: str, theme: str) -> None:
    page = show(name, color_scheme=theme, reduced_motion="reduce")
    stops = walk(page)
    assert len(stops) > 5
    assert [str(stop) for stop in stops if not stop.ring] == []
    assert [str(stop) for stop in stops if not stop.seen] == []
    pale = [str(stop) for stop in stops if contrast(stop.ring, stop.ground) < RING_CONTRAST]
    assert pale == []


def test_a_ring_that_was_taken_away_is_missed(show: Open) -> None:
    page = show("people", bypass_csp=True)
    page.add_style_tag(content="a { outline: none !important }")
    assert any(not stop.ring for stop in walk(page))


def test_what_is_covered_is_noticed(show: Open) -> None:
    page = show("people", bypass_csp=True)
    page.add_style_tag(
        content="body::after { content: ''; position: fixed; inset: 0; z-index: 99 }"
    )
    assert not any(stop.seen for stop in walk(page))


@pytest.mark.parametrize("name", WALKED)
def test_the_first_stop_leads_past_the_navigation(show: Open, name: str) -> None:
    page = show(name)
    to_the_top(page)
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to content")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_menu_opens_and_closes_by_keyboard_and_gives_the_focus_back(show: Open) -> None:
    page = show("collections")
    summary = page.locator("summary[aria-label=Account]")
    summary.focus()
    page.keyboard.press("Enter")
    item = page.get_by_role("link", name="Second factor")
    expect(item).to_be_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.menu') !== null")
    page.keyboard.press("Escape")
    expect(item).to_be_hidden()
    expect(summary).to_be_focused()


def test_a_dialog_holds_the_focus_and_gives_it_back(show: Open) -> None:
    page = show("document")
    opener = page.locator("[data-dialog]").first
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert not page.evaluate(OUTSIDE)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()


@pytest.mark.parametrize("width", [ZOOMED, REFLOWED])
def test_no_page_scrolls_sideways_or_is_cut_off_when_enlarged(
    browser: Browser, furnished: Furnished, width: int
) -> None:
    problems = []
    for who in ("", "manager", "root"):
        context = furnished.open(
            browser, who, viewport={"width": width, "height": 450}, service_workers="block"
        )
        page = context.new_page()
        for each in pages(furnished):
            if each.who != who or each.room == "admin":
                continue
            page.goto(f"/{each.path}")
            if over := page.evaluate(OVERFLOW):
                problems.append(f"/{each.path} is {over} px too wide")
            problems += [f"/{each.path} cuts off {cut}" for cut in page.evaluate(CUT)]
        context.close()
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", WALKED)
def test_wide_letters_and_lines_fit(show: Open, name: str, width: int) -> None:
    page = show(name, width=width, bypass_csp=True)
    page.add_style_tag(content=SPACING)
    assert page.evaluate(OVERFLOW) == 0
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("name", WALKED)
def test_nothing_moves_for_those_who_asked_for_that(show: Open, name: str) -> None:
    page = show(name, reduced_motion="reduce")
    assert page.evaluate(MOVING) == []


def test_something_moves_for_everyone_else(show: Open) -> None:
    page = show("collection", reduced_motion="no-preference")
    assert page.evaluate(MOVING) != []


@pytest.mark.parametrize("name", ["chat", "collection", "people"])
def test_the_focus_is_seen_in_forced_colours(show: Open, name: str) -> None:
    page = show(name, forced_colors="active")
    assert all(stop.ring for stop in walk(page))
    if folder := os.environ.get("RAGSITE_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/forced-colours-{name}.png")


@pytest.mark.parametrize("name", WALKED)
def test_a_phone_does_not_zoom_into_what_is_typed(show: Open, name: str) -> None:
    """Safari on iOS enlarges the page when a field of less than 16 px is tapped."""
    page = show(name, width=390, has_touch=True, is_mobile=True)
    assert page.evaluate(SMALL) == []


def test_the_page_with_the_focus_is_where_the_key_says(show: Open) -> None:
    page = show("empty chat")
    page.locator("#question").focus()
    stop = focused(page)
    assert stop is not None
    assert stop.name.startswith("textarea#question")
