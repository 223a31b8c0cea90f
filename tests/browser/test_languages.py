"""The chat in other languages: chosen, asked in, refused in, and written from the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.doubles import QUESTION, ChatPage, ChatSite, chat_site  # noqa: F401 - fixture
from tests.contract.tgi import Behaviour

SUPPORTED = "Employees receive 25 days of paid leave a year [1]."
NOT_FOUND = "Quasar xylophone?"
Speaking = Callable[..., ChatPage]


@pytest.fixture
def speaking(browser: Browser, chat_site: ChatSite) -> Iterator[Speaking]:  # noqa: F811
    """Opens the chat in a browser of that language: `speaking("ar", width=390)`."""
    chat_site.tgi.default = Behaviour(tokens=tuple(f"{word} " for word in SUPPORTED.split()))
    pages: list[ChatPage] = []

    def open_chat(language: str, *, width: int = 1280, scheme: str = "light") -> ChatPage:
        context = chat_site.open(browser, width=width, locale=language, color_scheme=scheme)
        pages.append(ChatPage(context.new_page(), "/t/acme/chat/", None))
        return pages[-1]

    yield open_chat
    problems = [problem for page in pages for problem in page.problems]
    for page in pages:
        page.page.context.close()
    assert problems == []


def choose(page: Page, account: str, language: str, name: str) -> None:
    """As a person does: the account's menu, its languages, one of them."""
    page.get_by_label(account, exact=True).click()
    page.locator("details.submenu > summary").click()
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("html")).to_have_attribute("lang", language)


def left_of(element: Locator) -> float:
    box = element.bounding_box()
    assert box
    return box["x"]


def test_a_language_is_chosen_in_the_menu_and_stays_on_the_next_page(speaking: Speaking) -> None:
    chat = speaking("en")
    choose(chat.page, "Account", "de", "Deutsch")
    chat.page.goto("/t/acme/chat/")
    expect(chat.page.locator("html")).to_have_attribute("lang", "de")
    expect(chat.page.locator("h1")).to_have_text("Neuer Chat")
    choose(chat.page, "Konto", "en", "English")


def test_a_stranger_chooses_a_language_before_signing_in(
    browser: Browser,
    chat_site: ChatSite,  # noqa: F811
) -> None:
    page = browser.new_context(base_url=chat_site.site.root).new_page()
    page.goto("/")
    page.get_by_label("Language", exact=True).click()
    page.get_by_role("button", name="العربية", exact=True).click()
    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    expect(page.locator("h1")).to_have_text("تسجيل الدخول")
    page.context.close()


def test_german_is_asked_answered_and_refused_in(speaking: Speaking) -> None:
    chat = speaking("de")
    chat.ask_and_wait()
    expect(chat.last.get_by_role("button", name="Neu erzeugen")).to_be_visible()
    chat.ask_and_wait(NOT_FOUND)
    chat.wait_for_text("Ihre Dokumente scheinen darauf keine Antwort zu geben.")
    chat.shoot("german")
    for box in chat.page.locator("input[name=collection]").all():
        box.evaluate("box => box.click()")
    chat.composer.fill(QUESTION)
    chat.composer.press("Enter")
    expect(chat.page.locator("#refusal")).to_have_text(
        "Wählen Sie mindestens eine Sammlung, die durchsucht werden soll."
    )


def test_a_stored_notice_is_shown_in_the_language_of_whoever_reads(
    speaking: Speaking,
    chat_site: ChatSite,  # noqa: F811
) -> None:
    """The model broke off for a German; later the page is read in English."""
    chat_site.tgi.default = Behaviour(
        tokens=("Employees receive ", "25 days"), failure="close", fail_after=1
    )
    chat = speaking("de")
    chat.ask()
    chat.wait_for("interrupted")
    notice = chat.last.locator(".answer-notices")
    expect(notice).to_contain_text("Das Sprachmodell brach vorzeitig ab")
    choose(chat.page, "Konto", "en", "English")
    expect(notice).to_contain_text("The language model broke off")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_arabic_is_written_from_the_right(speaking: Speaking, scheme: str) -> None:
    chat = speaking("ar", scheme=scheme)
    page = chat.page
    expect(page.locator("html")).to_have_attribute("dir", "rtl")
    chat.ask_and_wait()
    page.locator(".sources-button").click()
    expect(page.locator("#sources")).to_be_visible()
    # The list of conversations is at the right edge, the sources at the left.
    assert left_of(page.locator("#conversations")) > left_of(page.locator(".chat-main"))
    assert left_of(page.locator("#sources")) < left_of(page.locator(".chat-main"))
    # An English answer reads from the left all the same.
    direction = "element => getComputedStyle(element.querySelector('p') ?? element).direction"
    assert chat.text.evaluate(direction) == "ltr"
    chat.shoot(f"arabic-{scheme}")


def test_arabic_fits_a_phone_and_its_drawer_opens_from_the_right(speaking: Speaking) -> None:
    chat = speaking("ar", width=390)
    chat.ask_and_wait()
    chat.shoot("arabic-phone")
    page = chat.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator(".drawer-button").click()
    drawer = page.locator("#conversations")
    expect(page.locator("#chat")).to_have_attribute("data-drawer", "open")
    drawer.evaluate("element => Promise.all(element.getAnimations().map(each => each.finished))")
    box = drawer.bounding_box()
    assert box
    assert box["x"] + box["width"] == pytest.approx(390, abs=1)
    chat.shoot("arabic-phone-drawer")


@pytest.mark.parametrize(
    ("language", "title"), [("fr", "Nouveau chat"), ("es", "Nuevo chat"), ("zh-CN", "新聊天")]
)
def test_the_other_languages_are_there_as_the_browser_asks(
    speaking: Speaking, language: str, title: str
) -> None:
    chat = speaking(language)
    expect(chat.page.locator("h1")).to_have_text(title)
    chat.ask_and_wait()
    chat.shoot(f"chat-{language}")
