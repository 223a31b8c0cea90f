"""A conversation saved from its menu."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.doubles import QUESTION, ChatPage, ChatSite
from tests.contract.tgi import Behaviour

Tab = Callable[..., ChatPage]


@pytest.mark.parametrize(
    ("kind", "suffix", "begins"),
    [("Markdown", "md", b"# "), ("JSON", "json", b"{"), ("PDF", "pdf", b"%PDF-")],
)
def test_the_menu_saves_a_file(
    chat_site: ChatSite, tab: Tab, kind: str, suffix: str, begins: bytes
) -> None:
    chat_site.tgi.default = Behaviour(tokens=("Employees receive 25 days", " [1]."))
    chat = tab()
    chat.ask_and_wait(QUESTION)
    row = chat.page.locator(".conversation[data-current]")
    row.hover()
    row.locator(".conversation-more").click()
    with chat.page.expect_download() as downloading:
        chat.page.get_by_role("menuitem", name=f"Export as {kind}").click()
    saved = downloading.value
    assert saved.suggested_filename.endswith(f".{suffix}")
    assert Path(saved.path()).read_bytes().startswith(begins)
    expect(chat.answers).to_have_count(1)  # the page is where it was
