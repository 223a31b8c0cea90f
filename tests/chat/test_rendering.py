"""What a model wrote, after reading hostile documents, as HTML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from apps.chat.pipeline.citations import split_sentences
from apps.chat.pipeline.fallback import escape_markdown
from apps.chat.pipeline.types import Sentence
from apps.chat.rendering import render_answer
from apps.chat.rendering.code import CODE_CLASSES

URLS = {1: ("0b9d2b3e-0000-4000-8000-000000000001", "/t/acme/chat/citations/1/")}


def test_an_earned_marker_becomes_a_link() -> None:
    text = "Leave is 25 days [1]."
    html = render_answer(text, [Sentence(0, len(text), (1,), supported=True)], URLS)
    assert html.startswith('<p>Leave is 25 days.<a class="cite"'), "no space may break a line there"
    assert 'href="/t/acme/chat/citations/1/"' in html
    assert "[1]" not in html


def test_an_unsupported_sentence_is_marked() -> None:
    text = "The moon is cheese [1]."
    doubted = Sentence(0, len(text), (), supported=False, reason="numbers_differ")
    html = render_answer(text, [doubted], URLS)
    assert '<span class="unsupported">The moon is cheese.</span>' in html
    assert re.search(r'data-reason="numbers_differ" aria-label="[^"]+other numbers', html)


def test_an_unsupported_sentence_of_before_there_were_reasons_is_marked() -> None:
    html = render_answer("It is.", [Sentence(0, 6, (), supported=False)], URLS)
    assert re.search(r'data-reason="" aria-label="Not in the sources', html)


def test_a_marker_that_was_not_earned_leaves_no_hole() -> None:
    text = "Is it so [2]? `a[1]` and\n\n[3]\n\n```\nx[1]\n```\n"
    html = render_answer(text, [], URLS)
    assert "Is it so?" in html
    assert "<code>a[1]</code>" in html
    assert "x[1]" in html
    assert "[2]" not in html
    assert "[3]" not in html


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
    assert 'every query<a class="cite"' in html, "no line breaks between word and mark"
    assert "unsupported" not in html


class TestFormulas:
    @pytest.mark.parametrize(
        "text",
        [
            "$x^2$",
            "so $n$ is",
            r"\(a + b\)",
            "$$x$$",
            "$$\nx\n$$",
            r"\[ \frac{a}{b} \]",
            "\\[\nx\n\\]",
        ],
    )
    def test_formulas_become_mathml(self, text: str) -> None:
        html = render_answer(text, [], {})
        assert html.count("<math") == 1
        assert "$" not in html
        assert "\\" not in html

    @pytest.mark.parametrize(
        "text",
        [
            *("It costs $5 and $6.", "$5-$6", "US$5 (or CA$7)", "$HOME and $PATH", "a $ b $ c"),
            *(
                "from $5 a month to 10$",
                "`$x^2$`",
                r"\$x^2\$",
                "$ x^2 $",
                "$$",
                "$",
                r"\(see above\)",
            ),
        ],
    )
    def test_dollars_and_brackets_of_prose_stay(self, text: str) -> None:
        assert "<math" not in render_answer(text, [], {})

    @pytest.mark.parametrize(
        "formula",
        [
            r"\frac{1}{",
            r"\nosuchcommand{x}",
            r"\def\a{\a\a}\a",
            "{" * 5000 + "}" * 5000,
            "x" * 2000,
        ],
    )
    def test_a_formula_that_cannot_be_read_stays_as_its_source(self, formula: str) -> None:
        html = render_answer(f"$${formula}$$", [], {})
        assert "<math" not in html
        assert formula[:20] in html

    @pytest.mark.parametrize(
        "formula",
        [
            *(r"\text{<script>alert(1)</script>}", r"\href{javascript:alert(1)}{x}"),
            *('"><img src=x onerror=alert(1)>', r"\text{</math><img src=x onerror=alert(1)>}"),
            *(r"\style{position:fixed}{x}", r"\class{button}{x}", r"\color{red}x", r"\html{<svg>}"),
            *(r"\text{\href{javascript:x}{y}}", r"\mathrm{<maction actiontype=statusline>}"),
        ],
    )
    def test_nothing_executable_comes_out_of_a_formula(self, formula: str) -> None:
        html = render_answer(f"$${formula}$$ and ${formula}$", [], {})
        assert not re.search(r"<(script|img|svg|maction|annotation)", html)
        assert not re.search(r"<[^>]*\s(on\w+|href|style|class=.?button)", html)

    def test_a_formula_of_its_own_lines_is_no_sentence_and_keeps_its_marks_out(self) -> None:
        text = "$$\nE = mc^2\n$$\n\nSo it is."
        [sentence] = [(text[a:b]) for a, b in split_sentences(text)]
        assert sentence == "So it is."


class TestCode:
    def test_code_is_coloured_by_class_and_has_its_language(self) -> None:
        html = render_answer("```python\nreturn 'x'  # why\n```", [], {})
        assert '<span class="hl-keyword">return</span>' in html
        assert '<span class="code-language">python</span>' in html
        assert "style=" not in html

    @pytest.mark.parametrize("language", ["", "nosuch", "text", "go", "../../etc", "<b>"])
    def test_code_of_an_unknown_language_is_plain(self, language: str) -> None:
        html = render_answer(f"```{language}\nif <x>\n```", [], {})
        assert "<code>if &lt;x&gt;" in html
        assert "hl-" not in html

    @pytest.mark.parametrize(
        "code", ["x = 1\n" * 3000, "x" * 500, "@" * 390, "\n" * 400, "/*" * 200]
    )
    def test_huge_and_repetitive_code_is_plain(self, code: str) -> None:
        assert "hl-" not in render_answer(f"```python\n{code}\n```", [], {})


def test_tables_scroll_in_a_box_and_task_lists_show_boxes() -> None:
    html = render_answer("| a |\n|--:|\n| 1 |\n\n- [ ] to do\n- [x] done", [], {})
    assert html.startswith('<div class="table-box" tabindex="0"><table>')
    assert '<td class="cell-right">1</td>' in html
    assert "\u2610 to do" in html
    assert "\u2611 done" in html


@pytest.mark.parametrize(
    "text",
    [
        *(">" * 10_000, "- " * 10_000, "[" * 10_000, "*a " * 5_000, "`" * 10_000, "$x " * 5_000),
        *("|a" * 3_000 + "\n" + "|-" * 3_000, "\\(" * 5_000, "$$\n" * 5_000, "[a](" * 3_000),
        *("x" * 300_000, "```\n" * 3_000, "~~a" * 4_000, "<a " * 4_000, "&amp;" * 3_000),
    ],
)
def test_hostile_text_is_rendered_within_moments(text: str) -> None:
    html = render_answer(text, [], {})
    assert len(html) < 40 * len(text) + 1_000


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_class_of_code_has_colours_that_can_be_read() -> None:
    css = Path(settings.BASE_DIR, "static/css")
    site, reading = (css / name for name in ("site.css", "reading.css"))
    colours = r"light-dark\((#\w{6}), (#\w{6})\)"
    grounds = re.search(rf"--sunken: {colours}", site.read_text())
    assert grounds is not None
    rules = re.findall(rf"\.(hl-\w+) {{ color: {colours}", reading.read_text())
    found = {name: (light, dark) for name, light, dark in rules}
    assert set(found) == CODE_CLASSES
    for name, (light, dark) in found.items():
        assert _contrast(light, grounds[1]) >= 4.5, name
        assert _contrast(dark, grounds[2]) >= 4.5, name
