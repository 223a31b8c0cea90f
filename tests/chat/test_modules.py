"""What the page tells the browser to fetch ahead is what its scripts will ask for."""

from __future__ import annotations

import pytest
from django.templatetags.static import static

from apps.chat.templatetags.modules import modules_of


def test_every_module_behind_the_entry_is_named_once() -> None:
    links = modules_of("js/chat/main.js")
    for name in ("js/chat/socket.js", "js/chat/waiting.js", "js/i18n.js"):
        assert links.count(f'href="{static(name)}"') == 1
    assert "main.js" not in links


def test_modules_in_folders_are_found() -> None:
    assert static("js/chat/conversations/list.js") in modules_of("js/chat/conversations.js")


def test_an_entry_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing\.js"):
        modules_of("js/chat/nothing.js")
