"""The chat's states as axe-core sees them, and what a screen reader hears while it streams."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import in_both_themes
from tests.browser.doubles import QUESTION, SLOW, ChatPage, ChatSite
from tests.contract.tgi import Behaviour

Tab = Callable[..., ChatPage]

RICH = """Employees receive 25 days [1].

| Year | Days |
|---|---|
| first | 25 |

```python
def days() -> int:
    return 25
```

The moon is made of cheese.
"""
# Every change of a region that is read out by itself.
HEARD = """() => {
    window.heard = [];
    const live = "[aria-live], [role=status], [role=alert], [role=log], output";
    new MutationObserver((records) => {
        for (const { target } of records) {
            const element = target.nodeType === 1 ? target : target.parentElement;
            const region = element?.closest(live);
            if (region && region.ariaLive !== "off") window.heard.push(region.textContent.trim());
        }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
MOST_HEARD = 6  # searching, writing, done, and what there is to tell besides; not 60 words


def answered(chat_site: ChatSite, tab: Tab, *, width: int = 1280) -> ChatPage:
    chat_site.tgi.default = Behaviour(tokens=tuple(re.findall(r"\s*\S+\s*", RICH)))
    chat = tab(width=width)
    chat.ask_and_wait()
    return chat


def check(page: Page) -> None:
    found = in_both_themes(page)
    assert not found, "\n" + "\n".join(map(str, found))


widths = pytest.mark.parametrize("width", [1280, 390])


@widths
def test_an_empty_chat(tab: Tab, width: int) -> None:
    check(tab(width=width).page)


@widths
def test_a_question_that_is_being_answered(chat_site: ChatSite, tab: Tab, width: int) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab(width=width)
    chat.ask()
    chat.wait_for_text("word3")
    check(chat.page)


@widths
def test_a_conversation_with_an_answer(chat_site: ChatSite, tab: Tab, width: int) -> None:
    check(answered(chat_site, tab, width=width).page)


@widths
def test_sources_opened_from_a_citation(chat_site: ChatSite, tab: Tab, width: int) -> None:
    chat = answered(chat_site, tab, width=width)
    chat.text.locator("a.cite").first.click()
    expect(chat.page.locator("#sources")).to_be_in_viewport()
    expect(chat.page.locator("#sources mark").first).to_be_visible()
    check(chat.page)


def test_a_preview_of_a_citation(chat_site: ChatSite, tab: Tab) -> None:
    chat = answered(chat_site, tab)
    chat.text.locator("a.cite").first.hover()
    chat.page.wait_for_timeout(600)
    check(chat.page)


def test_every_menu_and_fold_of_the_page_when_open(chat_site: ChatSite, tab: Tab) -> None:
    chat = answered(chat_site, tab)
    folds = chat.page.locator("details")
    assert folds.count() > 1
    for number in range(folds.count()):
        folds.nth(number).evaluate("each => { each.open = true }")
        check(chat.page)
        folds.nth(number).evaluate("each => { each.open = false }")


def test_every_dialog_of_the_page_when_open(chat_site: ChatSite, tab: Tab) -> None:
    chat = answered(chat_site, tab)
    dialogs = chat.page.locator("dialog")
    assert dialogs.count() > 1
    for number in range(dialogs.count()):
        dialogs.nth(number).evaluate("each => each.showModal()")
        check(chat.page)
        dialogs.nth(number).evaluate("each => each.close()")


def test_the_drawer_of_a_phone(chat_site: ChatSite, tab: Tab) -> None:
    chat = answered(chat_site, tab, width=390)
    chat.page.locator(".drawer-button").click()
    expect(chat.page.locator("#conversation-list li").first).to_be_in_viewport()
    check(chat.page)


def test_the_help_sheet_opens_by_its_key_and_gives_the_focus_back(tab: Tab) -> None:
    chat = tab()
    button = chat.page.locator(".keys-button")
    button.focus()
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("dialog#shortcuts")).to_be_visible()
    check(chat.page)
    chat.page.keyboard.press("Escape")
    expect(button).to_be_focused()


def test_a_page_without_a_model(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.default = chat_site.second.default = Behaviour(status=500)
    chat = tab()
    chat.ask()
    expect(chat.last).to_have_attribute("data-state", re.compile("complete|failed"), timeout=30_000)
    check(chat.page)


def test_an_answer_that_streams_is_not_read_out_word_by_word(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab()
    chat.page.evaluate(HEARD)
    chat.ask(QUESTION)
    chat.wait_for("complete")
    expect(chat.page.locator("#announcer")).to_contain_text("word59")
    heard = chat.page.evaluate("window.heard")
    assert any("word59" in words for words in heard)
    assert len(heard) <= MOST_HEARD, heard
