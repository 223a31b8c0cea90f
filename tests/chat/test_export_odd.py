"""Heaps of Markdown's and TeX's signs in any order: each file keeps its structure."""

from __future__ import annotations

import random

import pytest

from apps.chat.exporting.kinds import Material
from tests.chat.exported import citation, material, message
from tests.chat.test_export_markdown import exported, headings, tokens
from tests.chat.test_export_pdf import outline, typeset_as_is

PIECES = [
    *("# ", "## ", "- ", "1. ", "> ", "\n", "\n\n", "  ", "    ", "\t", "---", "===", "|", "|-|-|"),
    *("```", "```py\n", "`", "``", "*", "**", "_", "~~", "[", "](", "![", "<b>", "<!--", "\\", "&"),
    *("$", "$$", "\\(", "\\)", "\\[", "\\]", "\\frac{a}{b}", "x^2_3", "\\sqrt{", "}", "%", "&amp;"),
    *("| a | b |\n|---|---|\n| ", "[x](http://a.example)", "https://b.example/c", "[1]", "[?]"),
    *(
        "word ",
        "مكتبة ",
        "图书馆",
        "😀",
        "👩‍👩‍👧",
        "1️⃣",
        "क्ष",
        "é",
        "½",
        "\U00012000",
        "\ufeff",
        "\x00",
    ),
    *("\u0301", "\u200d", "\u202e", "\u2066", "\ue000", "\ue001", "\ue002", "\ue0021\ue002"),
]


def heap(seed: int) -> Material:
    """The same for the same seed: as question, answer, title and name of a document."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    text = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 60)))
    sentences = []
    for _ in range(3):
        start, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        numbers = chance.choice([[], [1], [1, 2]])
        judged = {"start": start, "end": end, "citations": numbers, "supported": bool(numbers)}
        sentences.append(judged | {"reason": "no_passage"})
    sources = [citation(1, text[:20] or "x"), citation(2, "b.pdf")]
    answer = message("answer", text, sentences=sentences, citations=sources)
    return material(message("question", text), answer, title=text[:40])


@pytest.mark.parametrize("seed", range(60))
def test_markdown_keeps_its_structure_and_nothing_active(seed: int) -> None:
    text = exported(heap(seed))
    own = [tag for tag, _ in headings(text) if tag in ("h1", "h2", "h3")]
    assert own == ["h1", "h2", "h3", "h3"]
    inline = [child for token in tokens(text) for child in token.children or []]
    active = {token.type for token in [*tokens(text), *inline]}
    assert not active & {"html_block", "html_inline", "image"}


@pytest.mark.parametrize("seed", range(60, 90))
def test_a_pdf_can_always_be_laid_out(seed: int) -> None:
    assert len(outline(typeset_as_is(heap(seed)))) == 1
