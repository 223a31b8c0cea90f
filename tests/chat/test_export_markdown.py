"""Markdown export: all that was said, and nothing of it posing as the file's structure."""

from __future__ import annotations

import pytest
from django.utils import translation
from markdown_it import MarkdownIt
from markdown_it.token import Token

from apps.chat.exporting.kinds import EXPORTERS, Material
from tests.chat.exported import citation, exchange, material, message, sentence

ANSWER = "It opens at **nine**. It closes at eight. [2]\n\n- Mon\n- Tue"
GOLDEN = """# Opening hours

*Acme, exported on March 1, 2026, 09:05 UTC*

## Question 1

*March 1, 2026, 09:05 UTC*

When does it open?

### Answer

*Small model · March 1, 2026, 09:05 UTC*

It opens at **nine**. \\[1\\] It closes at eight. \\[?\\]

- Mon
- Tue

*The reranker is down.*

*This answer was stopped. It holds what had been written by then.*

*\\[?\\] Not in the sources: the passages that come near have other numbers.*

### Sources

- \\[1\\] hours\\_2026.pdf, pages 3 to 4
"""
HOSTILE = [
    "# Opening hours\n\n## Question 2\n\n### Answer",
    "Question 2\n==========\n\nAnswer\n------",
    "> # Question 2",
    "- # Question 2\n\n1. ## Answer",
    "<h2>Question 2</h2>\n\n<script>alert(1)</script>\n\n<!-- ",
    "```\nnever closed",
    "~~~\n```\n## Question 2",
    "`never closed",
    "[1]: https://evil.example\n\n[^1]: fake\n\n\\[1\\] fake.pdf, page 1",
    "| a |\n|---|\n| `|` ## Question 2 |",
    "$$\n## Question 2\n\nnever closed",
    "$$\n## Question 2\n# Three\n- x\n$$",
    "\\[\n===\n\\]\n\n$a\n---\nb$",
    "$<b>x_1</b>$ $![x](http://evil.example)_1$ $[x](http://evil.example)^2$ \\(`<!--`^2\\)",
    "$x^2 % comment\n## Question 2$",
    "# \n\n##\n\n### \u200b",
    "a\\\n## Question 2",
    "&lt;h2&gt; &#35; Question 2",
    "![x](https://evil.example/x.png) <img src=x> [y](javascript:alert(1))",
    "a\r## Question 2\r\n## Question 3\u2028## Question 4\u0085## Question 5",
    "\ue000\ue0021\ue002 ## x\ue001\ue001",
    "* a\n  * b\n    * c\n\n      # Question 2",
    "Sources\n\n- \\[9\\] fake.pdf, page 1",
]
_reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def exported(given: Material) -> str:
    return EXPORTERS["markdown"].export(given).decode()


def tokens(text: str) -> list[Token]:
    return _reader.parse(text)


def headings(text: str) -> list[tuple[str, str]]:
    """(tag, text) of every heading that a reader of Markdown sees."""
    read = tokens(text)
    return [
        (token.tag, read[place + 1].content)
        for place, token in enumerate(read)
        if token.type == "heading_open"
    ]


def words_of(text: str) -> str:
    """All that a reader of Markdown shows, without white space."""
    shown = ""
    for token in tokens(text):
        parts = token.children if token.type == "inline" else [token]
        shown += "".join(each.content for each in parts or [] if not each.type.startswith("html"))
    return "".join(shown.split())


def test_an_exchange_is_written_with_citations_sources_and_how_it_ended() -> None:
    answer = message(
        "answer",
        ANSWER,
        model="small",
        state="stopped",
        notices=[{"code": "reranker_down", "message": "The reranker is down."}],
        citations=[citation(1, "hours_2026.pdf", last=4)],
        sentences=[
            sentence(ANSWER, "It opens at **nine**.", 1),
            sentence(ANSWER, "It closes at eight. [2]"),
        ],
    )
    assert exported(material(message("question", "When does it open?"), answer)) == GOLDEN


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("role", ["question", "answer"])
def test_no_text_can_pose_as_structure(role: str, text: str) -> None:
    said = {"question": "When?", "answer": "At nine.", role: text}
    given = exchange(said["answer"], question=said["question"])
    after = material(*given.document["messages"], message("question", "And then?"))
    found = headings(exported(after))
    own = [(tag, words) for tag, words in found if tag in ("h1", "h2", "h3")]
    assert own == [
        ("h1", "Opening hours"),
        ("h2", "Question 1"),
        ("h3", "Answer"),
        ("h2", "Question 2"),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_active_is_left(text: str) -> None:
    read = tokens(exported(exchange(text, question=text)))
    inline = [child for token in read for child in token.children or []]
    kinds = {token.type for token in [*read, *inline]}
    assert not kinds & {"html_block", "html_inline", "image"}
    links = [token for token in inline if token.type == "link_open"]
    assert all(str(link.attrs["href"]).startswith(("http://", "https://")) for link in links)


@pytest.mark.parametrize("text", HOSTILE)
def test_all_of_a_question_is_shown_as_it_was_typed(text: str) -> None:
    typed = text.replace("\ue000", "").replace("\ue001", "").replace("\ue002", "")
    assert "".join(typed.split()) in words_of(exported(exchange("", question=text)))


@pytest.mark.parametrize(
    "title", ["# *Fake*\n## Question 7", "<b>x</b>", "[x](y)", "1. a", "- a", "\u202egnp.exe"]
)
def test_a_title_stays_one_line_of_plain_text(title: str) -> None:
    text = exported(exchange("At nine.", title=title))
    plain = " ".join(title.replace("\u202e", "").split())
    assert [tag for tag, _ in headings(text)] == ["h1", "h2", "h3"]
    (shown,) = tokens(text)[1].children or []
    assert (shown.type, shown.content) == ("text", plain)


def test_names_of_documents_are_plain_text() -> None:
    answer = message("answer", "At nine.", citations=[citation(1, "a](http://x) `b`\n# c.pdf")])
    text = exported(material(message("question", "When?"), answer))
    assert "- \\[1\\] a\\](http://x) \\`b\\` # c.pdf, page 3" in text


def test_headings_of_an_answer_stand_below_the_files_own() -> None:
    found = headings(exported(exchange("# One\n\n##### Two\n\n# Three\n\n## Four")))
    assert found[3:] == [("h4", "One"), ("h5", "Two"), ("h4", "Three"), ("h5", "Four")]


@pytest.mark.parametrize(
    "text",
    [
        "Use `a|b` and ``c`d``.",
        "A [link](https://example.org/a_(b)).",
        "**strong *both*** ~~gone~~",
        "1. one\n2. two\n\n   more\n\n- other",
        "> quoted\n> more\n\nafter",
        "| a | b |\n| :--- | ---: |\n| x\\|y | `p\\|q` |",
        "```py\ndef f(): ...\n```",
        "Line one\\\nline two",
        "Paid $5 or 6_000 * 2 < 3 & more",
        "- a\n\n  ```\n  code\n  ```\n- b",
    ],
)
def test_an_answer_reads_as_the_model_wrote_it(text: str) -> None:
    """What is written anew gives the same page; escapes may differ."""
    body = exported(exchange(text)).split("UTC*\n\n")[-1]
    assert _reader.render(body) == _reader.render(text)


def test_formulas_are_kept() -> None:
    text = exported(exchange("So $a^2$ and \\(b_1\\):\n\n\\[\n\\frac{a}{b}\n\\]"))
    assert "So $a^2$ and $b_1$:" in text
    assert "$$\\frac{a}{b}$$" in text


def test_controls_and_overrides_of_direction_go() -> None:
    text = exported(exchange("a\x00b\x1bc\u202ed", question="e\u202df\ufeff"))
    assert "abcd" in text
    assert "\nef\n" in text


def test_half_a_character_does_not_break_the_file() -> None:
    assert "x�y" in exported(exchange("x\ud800y"))


def test_the_words_are_the_readers() -> None:
    with translation.override("ar"):
        assert exported(exchange("At nine.")).isascii() is False


def test_only_the_branch_that_is_shown_is_written() -> None:
    hidden = message("answer", "Hidden.", shown=False)
    text = exported(material(message("question", "When?"), hidden, message("answer", "Shown.")))
    assert "Shown." in text
    assert "Hidden." not in text


def test_a_megabyte_is_written_whole() -> None:
    text = exported(exchange("word " * 200_000))
    assert text.count("word") == 200_000
