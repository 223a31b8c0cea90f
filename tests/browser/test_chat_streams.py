"""Answers that go on: over a reload, a broken connection, another tab, a restarted site."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.doubles import LONG, QUESTION, SLOW, WORDS, ChatPage, ChatSite
from tests.contract.tgi import Behaviour

Tab = Callable[..., ChatPage]


class Wire:
    """What lies between the pages' sockets and the site; it can be cut."""

    def __init__(self, page: Page) -> None:
        self.sent: list[str] = []  # types of the frames that came from the page
        self.cut_after = ""  # cut as soon as a frame of this type has gone through
        self.follow_ups: list[str] = []  # put into the last frames of answers
        self._page_side: WebSocketRoute | None = None
        page.route_web_socket(re.compile("/ws/"), self._opened)

    def cut(self) -> None:
        assert self._page_side is not None
        self._page_side.close(code=1012, reason="cut")

    def _opened(self, page_side: WebSocketRoute) -> None:
        self._page_side = page_side
        site_side = page_side.connect_to_server()
        lost = False  # replies on a cut wire go nowhere

        def from_page(message: str | bytes) -> None:
            nonlocal lost
            kind = json.loads(message)["type"]
            self.sent.append(kind)
            site_side.send(message)
            if kind == self.cut_after:
                self.cut_after, lost = "", True
                page_side.close(code=1012, reason="cut")

        def from_site(message: str | bytes) -> None:
            if self.follow_ups and '"answer.finished"' in str(message):
                message = json.dumps({**json.loads(message), "follow_ups": self.follow_ups})
            if not lost:
                page_side.send(message)

        page_side.on_message(from_page)
        site_side.on_message(from_site)


def assert_whole(chat: ChatPage) -> None:
    """Every word once, in order."""
    words = re.findall(r"word\d+", chat.text.inner_text())
    assert words == [word.strip() for word in WORDS]


def test_an_answer_is_followed_to_its_end(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word3")
    expect(chat.stop).to_be_visible()
    chat.shoot("streams-writing")
    chat.wait_for("complete")
    assert_whole(chat)
    expect(chat.stop).to_be_hidden()
    expect(chat.composer).to_be_focused()
    expect(chat.page.locator("#announcer")).to_contain_text("word59")
    chat.shoot("streams-complete")


def test_a_reload_in_the_middle_loses_nothing(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word9")
    chat.page.reload()
    chat.wait_for_text("word9")
    expect(chat.last).to_have_attribute("data-state", "streaming")
    expect(chat.stop).to_be_visible()
    chat.wait_for("complete")
    assert_whole(chat)
    expect(chat.questions).to_have_count(1)
    assert chat_site.tgi.disconnects == 0


def test_a_cut_connection_is_taken_up_where_it_broke(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab(before=Wire)
    chat.ask()
    for word in ("word5", "word20", "word35"):
        chat.wait_for_text(word)
        chat.wire.cut()
        chat.wait_for_connection()
    chat.wait_for("complete")
    assert_whole(chat)
    assert chat.wire.sent.count("ask") == 1
    assert chat.wire.sent.count("follow") == 3
    expect(chat.page.locator("#refusal")).to_be_hidden()


def test_what_arrives_is_acknowledged(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab(before=Wire)
    chat.ask()
    chat.wait_for("complete")
    # 3 s at one a quarter of a second, and no more than one a frame.
    assert 4 <= chat.wire.sent.count("ack") <= 30


def test_offline_is_said_and_the_answer_goes_on(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word5")
    chat.page.context.set_offline(True)
    expect(chat.connection).to_have_text(re.compile("You are offline. The answer goes on"))
    expect(chat.page.get_by_role("button", name="Send")).to_have_count(0)
    chat.shoot("streams-offline")
    chat.page.context.set_offline(False)
    chat.wait_for("complete")
    assert_whole(chat)
    expect(chat.connection).to_be_hidden()


def test_a_question_on_its_way_when_the_connection_breaks_is_asked_once(
    chat_site: ChatSite, tab: Tab
) -> None:
    chat = tab(before=Wire)
    listed = chat.page.locator("#conversation-list .conversation")
    before = listed.count()
    chat.wire.cut_after = "ask"
    chat.ask()
    chat.wait_for("complete")
    expect(chat.questions).to_have_count(1)
    expect(chat.answers).to_have_count(1)
    chat.ask_and_wait("And how much in the second year of employment?")
    chat.page.reload()
    expect(chat.questions).to_have_count(2)
    expect(listed).to_have_count(before + 1)
    chat.page.goto("/t/acme/chat/")
    expect(chat.composer).to_have_value("")


def test_another_tab_sees_the_question_and_the_answer(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    chat.ask_and_wait()
    beside = tab(chat.page.url, beside=chat)
    listing = tab(beside=chat)
    chat_site.tgi.default = SLOW
    chat.ask("Is there more of it?")
    expect(beside.questions).to_have_count(2)
    beside.wait_for_text("word9")
    expect(beside.last).to_have_attribute("data-state", "streaming")
    for each in (chat, beside):
        each.wait_for("complete")
        assert_whole(each)
    # The tab that was asked in gets no second copy, and one elsewhere none at all.
    expect(chat.questions).to_have_count(2)
    expect(listing.questions).to_have_count(0)


def test_the_list_of_another_tab_hears_of_a_new_conversation(tab: Tab) -> None:
    chat = tab()
    beside = tab(beside=chat)
    before = beside.page.locator("#conversation-list .conversation").count()
    chat.ask_and_wait()
    expect(beside.page.locator("#conversation-list .conversation")).to_have_count(before + 1)


def test_stop_in_another_tab_keeps_question_and_text_and_frees_the_engine(
    chat_site: ChatSite, tab: Tab
) -> None:
    chat_site.tgi.script(LONG)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word5")
    beside = tab(chat.page.url, beside=chat)
    beside.wait_for_text("word5")
    beside.stop.click()
    for each in (chat, beside):
        each.wait_for("stopped")
        expect(each.text).to_contain_text("word5")
        expect(each.text).not_to_contain_text("word599")
        expect(each.questions).to_contain_text("paid leave")
    expect(beside.composer).to_be_focused()
    assert chat_site.tgi.open_generations == 0
    chat.page.reload()
    chat.wait_for("stopped")
    expect(chat.text).to_contain_text("word5")
    expect(chat.questions).to_contain_text("paid leave")


def test_escape_stops_but_first_closes_what_is_open(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(LONG)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word3")
    chat.page.locator("summary.picker").click()
    chat.page.keyboard.press("Escape")
    expect(chat.page.locator("details.menu[open]")).to_have_count(0)
    expect(chat.stop).to_be_visible()
    chat.page.keyboard.press("Escape")
    chat.wait_for("stopped")


def test_a_long_wait_says_how_long_and_raises_no_error(chat_site: ChatSite, tab: Tab) -> None:
    chat_site.tgi.script(Behaviour(first_s=12))
    chat = tab()
    chat.ask()
    wait = chat.last.locator(".answer-wait")
    expect(wait).to_have_text("")
    expect(wait).to_have_text(re.compile(r"1\d s so far"))
    chat.shoot("streams-waiting")
    expect(chat.page.locator("#refusal")).to_be_hidden()
    chat.wait_for("complete")
    expect(wait).to_have_text("")


def test_the_reader_is_not_dragged_along(chat_site: ChatSite, tab: Tab) -> None:
    lines = tuple(f"Paragraph {n}.\n\n" for n in range(80))
    chat_site.tgi.script(Behaviour(tokens=lines, token_s=0.05))
    chat = tab()
    chat.ask()
    chat.wait_for_text("Paragraph 30.")
    jump = chat.page.get_by_role("button", name="Jump to the latest")
    expect(jump).to_be_hidden()
    scroller = chat.page.locator("#thread-scroll")
    scroller.hover()
    chat.page.mouse.wheel(0, -2000)
    expect(jump).to_be_visible()
    stayed = scroller.evaluate("at => at.scrollTop")
    chat.wait_for_text("Paragraph 60.")
    assert scroller.evaluate("at => at.scrollTop") == stayed
    chat.shoot("streams-jump")
    jump.click()
    expect(jump).to_be_hidden()
    chat.wait_for("complete")
    rest = scroller.evaluate("at => at.scrollHeight - at.scrollTop - at.clientHeight")
    assert rest < 2


def test_a_draft_survives_a_reload_until_it_is_sent(tab: Tab) -> None:
    chat = tab()
    chat.composer.fill("half a quest")
    chat.page.reload()
    chat.wait_for_connection()
    expect(chat.composer).to_have_value("half a quest")
    chat.ask_and_wait()
    chat.composer.fill("of this conversation")
    chat.page.reload()
    expect(chat.composer).to_have_value("of this conversation")
    chat.page.goto("/t/acme/chat/")
    chat.wait_for_connection()
    expect(chat.composer).to_have_value("")


def test_a_follow_up_is_asked_by_a_click_and_what_is_typed_stays(tab: Tab) -> None:
    suggested = "When do employees get their paid leave?"
    chat = tab(before=Wire)
    chat.wire.follow_ups = [suggested, "<b>Who</b> pays it?"]
    chat.ask_and_wait()
    offered = chat.page.locator("#follow-ups").get_by_role("button")
    expect(offered).to_have_text([suggested, "<b>Who</b> pays it?"])
    chat.shoot("streams-follow-ups")
    chat.wire.follow_ups = []
    chat.composer.fill("half a quest")
    offered.first.click()
    expect(chat.questions).to_have_count(2)
    expect(chat.questions.last).to_contain_text(suggested)
    chat.wait_for("complete")
    expect(offered).to_have_count(0)
    expect(chat.composer).to_have_value("half a quest")
    expect(chat.composer).to_be_focused()


def test_storage_that_is_forbidden_breaks_nothing(tab: Tab) -> None:
    def forbid(page: Page) -> None:
        page.add_init_script(
            "Object.defineProperty(window, 'localStorage', {get() {throw new Error('no')}})"
        )

    chat = tab(before=forbid)
    chat.ask_and_wait()
    expect(chat.composer).to_have_value("")


def test_a_restarted_site_leaves_what_was_written_and_offers_to_go_on(
    chat_site: ChatSite, tab: Tab
) -> None:
    chat_site.tgi.script(SLOW)
    chat = tab()
    chat.ask()
    chat.wait_for_text("word9")
    chat_site.kill()
    expect(chat.connection).to_contain_text("The answer goes on meanwhile")
    chat_site.start_again()
    chat.wait_for_connection()
    expect(chat.last).to_have_attribute("data-state", "interrupted", timeout=40_000)
    expect(chat.text).to_contain_text("word9")
    expect(chat.questions).to_contain_text(QUESTION)
    expect(chat.last.get_by_role("button", name="Go on")).to_be_visible()
    chat.shoot("streams-interrupted")
    chat.ask_and_wait("And in the second year?")
