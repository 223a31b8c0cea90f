"""What a model wrote, after reading hostile documents, as HTML."""

from __future__ import annotations

import re

import pytest

from apps.chat.pipeline.fallback import escape_markdown
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering import render_answer

URLS = {1: ("0b9d2b3e-0000-4000-8000-000000000001", "/t/acme/chat/citations/1/")}


def test_an_earned_marker_becomes_a_link() -> None:
    text = "Leave is 25 days [1]."
    html = render_answer(text, [Sentence(0, len(text), (1,), supported=True)], URLS)
    assert html.startswith('<p>Leave is 25 days.<a class="cite"')
    assert 'href="/t/acme/chat/citations/1/"' in html
    assert "[1]" not in html


def test_an_unsupported_sentence_is_marked() -> None:
    text = "The moon is cheese."
    html = render_answer(text, [Sentence(0, len(text), (), supported=False)], URLS)
    assert re.search(r'<span class="unsupported" title="[^"]+">The moon is cheese\.</span>', html)


def test_a_mark_that_cuts_through_emphasis_is_repaired() -> None:
    text = "**Bold start. Then** more."
    html = render_answer(text, [Sentence(0, 13, (), supported=False)], URLS)
    assert html.count("<span") == html.count("</span>")
    assert html.count("<strong") == html.count("</strong>")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[click](javascript:alert(1))",
        "[click](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](http://evil.example/track.png)",
        '<a href="x" onclick="alert(1)">a</a>',
        "<svg/onload=alert(1)>",
        "<style>*{display:none}</style>",
        "<iframe src=//evil.example></iframe>",
        '[a](http://x "onmouseover=alert(1)")',
        "```html\n<script>alert(1)</script>\n```",
        "\ue0021\ue002<script>",
        "<math><mtext></mtext><script>alert(1)</script></math>",
        "[a]: javascript:alert(1)\n\n[a]",
    ],
)
def test_nothing_executable_survives(text: str) -> None:
    html = render_answer(text, [], URLS)
    assert not re.search(r"<(script|img|svg|style|iframe|math)", html, re.IGNORECASE)
    assert not re.search(r"<[^>]+\son\w+\s*=", html, re.IGNORECASE)
    assert not re.search(r"""href=["']?\s*(javascript|data):""", html, re.IGNORECASE)


def test_position_marks_can_not_come_from_the_text() -> None:
    assert "cite" not in render_answer("\ue0021\ue002 and \ue000x\ue001", [], URLS)


def test_quoted_document_text_is_literal() -> None:
    hostile = "# Not a heading [x](http://evil.example) **bold** `code` <b>tag</b> 1. list"
    html = render_answer(escape_markdown(hostile), [], {})
    assert "<a" not in html
    assert "<strong" not in html
    assert "<code" not in html
    assert "<h1" not in html


def test_marks_leave_tables_whole() -> None:
    rows = ["| Lock | Where |", "|---|---|", "| predicate | every query [1] |", "| moon | cheese |"]
    text = "\n".join(rows)
    starts = [text.index(row) for row in rows]
    sentences = [
        Sentence(starts[0], starts[0] + len(rows[0]), (1,), supported=True),
        Sentence(starts[1], starts[1] + len(rows[1]), (1,), supported=True),
        Sentence(starts[2] + 2, starts[2] + len(rows[2]), (1,), supported=True),
        Sentence(starts[3] + 2, starts[3] + len(rows[3]), (), supported=False),
    ]
    html = render_answer(text, sentences, URLS)
    assert html.count("<tr>") == 3
    assert html.count('class="cite"') == 2
    assert "unsupported" not in html
