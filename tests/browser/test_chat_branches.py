"""Versions of questions and answers, going on from one that broke off, and comparing two models."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.doubles import LONG, QUESTION, SECOND_MODEL, SLOW, ChatPage, ChatSite
from tests.contract.tgi import Behaviour

Tab = Callable[..., ChatPage]
LATER = "The canteen opens at noon and serves lunch until when?"


def place(message: Locator) -> Locator:
    return message.locator("[data-branch-place]")


def edit(chat: ChatPage, text: str) -> None:
    question = chat.questions.first
    question.hover()
    question.get_by_role("button", name="Edit the question").click()
    field = question.get_by_role("textbox", name="Edit your question")
    expect(field).to_be_focused()
    field.fill(text)
    question.get_by_role("button", name="Ask anew").click()


def test_an_edited_question_is_a_branch_one_can_move_between(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait(QUESTION)
    chat.ask_and_wait("And in the second year?")
    chat_site.tgi.script(Behaviour(tokens=("At", " noon", ".")))
    edit(chat, LATER)
    expect(chat.questions).to_have_count(1)
    chat.wait_for("complete")
    expect(chat.questions.first).to_contain_text(LATER)
    expect(place(chat.questions.first)).to_have_text("2 of 2")
    chat.shoot("branches-edited")
    earlier = chat.questions.first.get_by_role("button", name="Earlier version")
    earlier.click()
    expect(chat.questions).to_have_count(2)
    expect(chat.questions.first).to_contain_text("paid leave")
    expect(place(chat.questions.first)).to_have_text("1 of 2")
    expect(chat.page.locator("#announcer")).to_have_text("1 of 2")
    # At the first version, the way forward is what is left to press.
    later = chat.questions.first.get_by_role("button", name="Later version")
    expect(later).to_be_focused()
    expect(earlier).to_be_disabled()
    chat.page.reload()
    chat.wait_for_connection()
    expect(chat.questions).to_have_count(2)
    later.click()
    expect(chat.questions.first).to_contain_text(LATER)
    chat.ask_and_wait("And until when?")
    expect(chat.questions).to_have_count(2)


def test_an_edit_can_be_given_up_and_saved_by_keys(tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait(QUESTION)
    chat.composer.press("ArrowUp")
    field = chat.questions.first.get_by_role("textbox", name="Edit your question")
    expect(field).to_be_focused()
    expect(field).to_have_value(QUESTION)
    field.fill("something else")
    field.press("Escape")
    expect(field).to_have_count(0)
    expect(chat.questions.first).to_contain_text(QUESTION)
    expect(chat.questions.first.get_by_role("button", name="Edit the question")).to_be_focused()
    chat.composer.focus()
    chat.composer.press("ArrowUp")
    field.fill("")
    expect(chat.questions.first.get_by_role("button", name="Ask anew")).to_be_disabled()
    field.fill(LATER)
    field.press("Control+Enter")
    expect(place(chat.questions.first)).to_have_text("2 of 2")
    expect(chat.questions.first).to_contain_text(LATER)


def test_the_field_of_an_edit_is_in_sight_however_long_the_thread(
    chat_site: ChatSite, tab: Tab
) -> None:
    chat_site.tgi.default = Behaviour(tokens=tuple(f"Paragraph {n}.\n\n" for n in range(40)))
    chat = tab(width=390)
    chat.ask_and_wait(QUESTION)
    chat.composer.press("ArrowUp")
    field = chat.questions.first.get_by_role("textbox", name="Edit your question")
    expect(field).to_be_in_viewport()
    expect(chat.page.get_by_role("button", name="Jump to the latest")).to_be_visible()
    field.press("Escape")
    expect(chat.questions.first.get_by_role("button", name="Edit the question")).to_be_in_viewport()


def test_an_answer_made_anew_stands_beside_the_old_one(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait(QUESTION)
    chat_site.tgi.script(Behaviour(tokens=("Twenty", "-five", " days", ".")))
    chat.last.get_by_role("button", name="Regenerate").click()
    chat.wait_for_text("Twenty-five")
    chat.wait_for("complete")
    expect(chat.answers).to_have_count(1)
    expect(place(chat.last)).to_have_text("2 of 2")
    beside = tab(chat.page.url, beside=chat)
    expect(beside.text).to_contain_text("Twenty-five")
    chat.last.get_by_role("button", name="Earlier version").click()
    expect(chat.text).not_to_contain_text("Twenty-five")
    expect(place(chat.last)).to_have_text("1 of 2")


def test_a_stopped_answer_is_gone_on_from(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(LONG)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word5")
    chat.stop.click()
    chat.wait_for("stopped")
    kept = chat.text.inner_text()
    chat_site.tgi.script(Behaviour(tokens=(" and", " the", " rest", ".")))
    chat.last.get_by_role("button", name="Go on").click()
    chat.wait_for("complete")
    expect(chat.text).to_contain_text("and the rest.")
    expect(chat.text).to_contain_text("word5")
    assert chat.text.inner_text().startswith(kept[:40])
    expect(chat.answers).to_have_count(1)
    expect(place(chat.last)).to_have_text("2 of 2")
    expect(chat.last.get_by_role("button", name="Go on")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
def test_two_models_answer_side_by_side_and_one_is_gone_on_with(
    chat_site: ChatSite, tab: Tab, width: int
) -> None:
    chat_site.tgi.script(Behaviour(tokens=("The", " first", " says", " 25", "."), token_s=0.2))
    chat_site.second.script(Behaviour(tokens=("The", " second", " says", " so"), token_s=0.2))
    chat = tab(width=width)
    chat.page.get_by_label("Compare with another model").select_option(SECOND_MODEL)
    chat.ask(QUESTION)
    expect(chat.answers).to_have_count(2)
    for answer in (chat.answers.first, chat.answers.last):
        expect(answer).to_have_attribute("data-state", "streaming")
    for answer in (chat.answers.first, chat.answers.last):
        expect(answer).to_have_attribute("data-state", "complete")
    expect(chat.answers.first).to_contain_text("The first says")
    expect(chat.answers.last).to_contain_text("The second says")
    sides = [chat.page.locator(".compared").nth(at).bounding_box() for at in (0, 1)]
    assert sides[0]
    assert sides[1]
    assert (sides[0]["y"] == sides[1]["y"]) is (width > 600), "beside, or stacked on a phone"
    # Comparing costs twice: it is for one question.
    expect(chat.page.get_by_label("Compare with another model")).to_have_value("")
    chat.shoot(f"branches-compared-{width}")
    chat.page.get_by_role("button", name="Go on with this one").click()
    chosen = chat.page.locator(".compared[data-chosen]")
    expect(chosen).to_contain_text("The second says")
    expect(chosen.locator(".compared-model")).to_have_text("Second model")
    chat.ask_and_wait("And in the second year?")
    expect(chat.answers).to_have_count(3)
    chat.page.reload()
    chat.wait_for_connection()
    expect(chat.answers).to_have_count(3)
    expect(chosen).to_contain_text("The second says")
    expect(chosen.locator(".compared-model")).to_have_text("Second model")
    assert chat.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_comparison_survives_a_reload_in_the_middle(chat_site: ChatSite, tab: Tab) -> None:
    for double in (chat_site.tgi, chat_site.second):
        double.script(SLOW)
    chat = tab()
    chat.page.get_by_label("Compare with another model").select_option(SECOND_MODEL)
    chat.ask(QUESTION)
    for answer in (chat.answers.first, chat.answers.last):
        expect(answer).to_contain_text("word5")
    chat.page.reload()
    for answer in (chat.answers.first, chat.answers.last):
        expect(answer).to_have_attribute("data-state", "complete")
        words = re.findall(r"word\d+", answer.locator(".answer-body").inner_text())
        assert words == [f"word{n}" for n in range(60)]


def test_a_refused_edit_brings_everything_back(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait(QUESTION)
    chat.ask_and_wait("And in the second year?")
    chat.page.evaluate(
        "() => { document.getElementsByName('collection')[0].value = crypto.randomUUID(); }"
    )
    edit(chat, LATER)
    expect(chat.page.locator("#refusal")).to_contain_text("not open to you")
    expect(chat.questions).to_have_count(2)
    expect(chat.answers).to_have_count(2)
    field = chat.questions.first.get_by_role("textbox", name="Edit your question")
    expect(field).to_have_value(LATER)


def test_the_keys_are_listed_and_work(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait(QUESTION)
    sheet = chat.page.get_by_role("dialog", name="Keyboard shortcuts")
    chat.composer.press("?")
    expect(sheet).to_be_hidden()
    expect(chat.composer).to_have_value("?")
    chat.composer.fill("")
    chat.page.keyboard.press("Control+/")
    expect(sheet).to_be_visible()
    chat.shoot("branches-keys")
    chat.page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    chat.page.locator("#thread-scroll").focus()
    chat.page.keyboard.press("?")
    expect(sheet).to_be_visible()
    # A single key is somebody's slip of the tongue to a speech recogniser: it can be turned off.
    sheet.get_by_label("Single keys").uncheck()
    chat.page.keyboard.press("Escape")
    chat.page.locator("#thread-scroll").focus()
    chat.page.keyboard.press("?")
    expect(sheet).to_be_hidden()
    chat.page.keyboard.press("Control+Shift+O")
    expect(chat.page).to_have_url(re.compile("/chat/$"))
