"""The chat page: keys, conversations, being signed out."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import NewVisitor
from tests.browser.pages import Chat, Visitor
from tests.flows.library import Library, make_library
from tests.running_stack import Stack

QUESTION = "What do the bees of Aldern make in June?"


@pytest.fixture(scope="module")
def bees(stack: Stack) -> Library:
    made = make_library(stack)
    made.add("bees.md", "# Bees\n\nIn June the bees of Aldern make linden honey.\n")
    return made


def test_enter_sends_and_shift_enter_does_not(visit: NewVisitor, bees: Library) -> None:
    chat = Chat(visit("corpus-admin").page, bees)
    chat.composer.fill("first line")
    chat.composer.press("Shift+Enter")
    chat.composer.press_sequentially("second line")
    expect(chat.composer).to_have_value("first line\nsecond line")
    expect(chat.answers).to_have_count(0)
    chat.ask_and_wait(QUESTION)
    expect(chat.composer).to_have_value("")
    expect(chat.composer).to_be_focused()


def test_an_empty_or_over_long_question_cannot_be_sent(visit: NewVisitor, bees: Library) -> None:
    chat = Chat(visit("corpus-admin").page, bees)
    send = chat.page.get_by_role("button", name="Send")
    chat.composer.fill("   ")
    expect(send).to_be_disabled()
    chat.composer.fill("x" * 4001)
    expect(send).to_be_disabled()
    expect(chat.page.locator("[data-counter]")).to_have_text("4001 of 4000")
    chat.composer.press("Enter")
    expect(chat.answers).to_have_count(0)


def test_a_first_question_gives_the_conversation_its_address_and_place(
    visit: NewVisitor, bees: Library
) -> None:
    chat = Chat(visit("corpus-admin").page, bees)
    chat.ask_and_wait(QUESTION)
    expect(chat.page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/"))
    expect(chat.page).to_have_title(re.compile("bees.* · Chat · "))
    expect(chat.page.locator(".conversation[data-current]")).to_contain_text("bees")
    expect(chat.page.locator("#conversation-title")).to_contain_text("bees")


def test_a_session_that_ends_is_said_and_nothing_typed_is_lost(
    visit: NewVisitor, bees: Library
) -> None:
    visitor = visit("")
    visitor.sign_in(bees.stack.email("member"), bees.stack.password)
    expect(visitor.page).to_have_url(re.compile("/chat/"))
    chat = Chat(visitor.page, bees)
    elsewhere = visitor.page.context.new_page()
    elsewhere.goto("/accounts/logout/")
    elsewhere.locator("main").get_by_role("button", name="Sign out").click()
    # Left open: closing a page that is still navigating has hung Chromium's driver for minutes.
    expect(elsewhere).to_have_url(re.compile("/accounts/login/"))
    chat.composer.fill(QUESTION)
    chat.composer.press("Enter")
    expect(chat.page.locator("#connection")).to_contain_text("signed out")
    expect(chat.composer).to_have_value(QUESTION)
    visitor.shoot("signed-out")
    chat.page.reload()
    expect(chat.page).to_have_url(re.compile("/accounts/login/"))


def test_another_person_sees_none_of_the_conversation(visit: NewVisitor, bees: Library) -> None:
    chat = Chat(visit("corpus-admin").page, bees)
    chat.ask_and_wait(QUESTION)
    member = visit("member")
    member.expected = ("404",)
    answer = member.page.goto(chat.page.url)
    assert answer is not None
    assert answer.status == 404
    Chat(member.page, bees)
    expect(member.page.locator("#conversation-list")).not_to_contain_text("bees")


def test_a_member_sees_no_hops_and_a_corpus_admin_does(visit: NewVisitor, bees: Library) -> None:
    for who, sees in (("member", 0), ("corpus-admin", 1)):
        chat = Chat(visit(who).page, bees)
        chat.ask_and_wait(QUESTION)
        details = chat.last.locator(".answer-details")
        details.locator("summary").click()
        expect(details).to_contain_text("tokens")
        expect(details.locator("table.hops")).to_have_count(sees)


def test_a_thumb_is_given_changed_commented_and_taken_back(
    visit: NewVisitor, bees: Library
) -> None:
    visitor = visit("member")
    chat = Chat(visitor.page, bees)
    chat.ask_and_wait(QUESTION)
    form = chat.last.locator(".feedback")
    good, bad = (form.get_by_role("button", name=f"{word} answer") for word in ("Good", "Bad"))
    expect(form).to_contain_text("corpus admins review this question and its passages")
    good.focus()
    good.press("Enter")
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(good).to_be_focused()
    expect(chat.page.locator("#announcer")).to_have_text("Saved. Thank you.")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(good).to_have_attribute("aria-pressed", "false")
    form.get_by_role("textbox").fill("Which honey? <b>")
    form.get_by_role("button", name="Save feedback").click()
    expect(form).to_contain_text("Saved with what you said.")
    visitor.shoot("thumb")
    chat.page.reload()
    chat.wait_for_connection()
    expect(form.get_by_role("textbox")).to_have_value("Which honey? <b>")
    expect(bad).to_have_attribute("aria-pressed", "true")
    bad.click()
    expect(form).to_contain_text("Taken back.")
    expect(bad).to_have_attribute("aria-pressed", "false")
    expect(form.get_by_role("textbox")).to_have_count(0)


def test_a_thumb_works_without_script(browser: Browser, stack: Stack, bees: Library) -> None:
    context = browser.new_context(base_url=stack.url)
    visitor = Visitor(context.new_page(), stack)
    visitor.bring_session("member")
    chat = Chat(visitor.page, bees)
    chat.ask_and_wait(QUESTION)
    plain = browser.new_context(
        base_url=stack.url, java_script_enabled=False, storage_state=context.storage_state()
    )
    page = plain.new_page()
    page.goto(chat.page.url)
    page.get_by_role("button", name="Good answer").click()
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/#answer-[0-9a-f-]{36}$"))
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Good answer").click()
    expect(page.get_by_role("button", name="Good answer")).to_have_attribute(
        "aria-pressed", "false"
    )
    plain.close()
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_what_a_follow_up_was_searched_as_is_shown(
    visit: NewVisitor, bees: Library, width: int
) -> None:
    visitor = visit("corpus-admin", width=width)
    chat = Chat(visitor.page, bees)
    chat.ask_and_wait(QUESTION)
    expect(chat.last.locator(".answer-searched")).to_be_hidden()
    chat.ask_and_wait("and in July?")
    searched = chat.last.locator(".answer-searched")
    expect(searched).to_contain_text("bees of Aldern")
    expect(searched).to_contain_text("July")
    details = chat.last.locator(".answer-details")
    details.locator("summary").click()
    expect(details).to_contain_text("Searched as (put together by rule)")
    expect(details).to_contain_text("rewrite")
    visitor.shoot(f"searched-as-{width}")
    chat.page.reload()
    chat.wait_for_connection()
    expect(chat.last.locator(".answer-searched")).to_contain_text("bees of Aldern")
    wide = chat.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
