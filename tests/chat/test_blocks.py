"""Finished blocks of an answer that is being written."""

from __future__ import annotations

import random

import pytest

from apps.chat.rendering.blocks import Block, Blocks
from apps.chat.rendering.markdown import markdown

# Lines that have something to do with each other: what one opens another closes, or seems to.
LINES = [
    *("Para one.", "with *em* and `code`", "- item", "  - sub", "1. one", "10) ten", "> quote"),
    *("> ", "```py", "```", "~~~", "````", "    indented", "\tx", "| a | b |", "|---|---|"),
    *("| 1 |", "# H", "===", "---", "***", "$$", "\\[", "\\]", "$$x$$", "\\[ a \\]", "x $$"),
    *("$a$", "[1]", "", "", "", "   ", " - odd", "* star", "+ plus", "   ```", "  text"),
    *("[a]: http://x.example", "[a]", "\\", "<b>", "&amp;", "2. two", "$$ [1]", "- [ ] t"),
    *("عربي", "一。", "-", "1.", "\u2028sep"),
]


def feed(text: str, cuts: random.Random | None = None) -> list[Block]:
    blocks = Blocks(markdown.render)
    found, at = [], 0
    while at < len(text):
        size = cuts.choice([1, 2, 5, 20, 200]) if cuts else 1
        found += blocks.add(text[at : at + size])
        at += size
    return found


def ends(text: str) -> list[str]:
    """What each finished block ends with."""
    return [text[: block.end].rstrip().rsplit("\n", 1)[-1] for block in feed(text)]


@pytest.mark.parametrize("seed", range(20))
def test_blocks_and_the_rest_render_as_the_whole_text_does(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - reproducible texts, no secret
    for _ in range(100):
        newline = chance.choice(["\n", "\n", "\r\n", "\r"])
        text = newline.join(chance.choice(LINES) for _ in range(chance.randint(1, 14)))
        found = feed(text, chance)
        end = found[-1].end if found else 0
        html = "".join(block.html for block in found) + markdown.render(text[end:])
        assert html == markdown.render(text), text


def test_indices_and_ends_grow() -> None:
    found = feed("# Head\n\nOne.\n\nTwo.\n\n```\nx\n```\n")
    assert [block.index for block in found] == [0, 1, 2, 3]
    assert [block.end for block in found] == sorted({block.end for block in found})


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("One.", []),
        ("One.\n", []),
        ("One.\n\n", ["One."]),
        ("# Head\n", ["# Head"]),
        ("Head\n===\n\n", ["==="]),
        ("```\na\n\nb\n", []),
        ("```\na\n\nb\n```\n", ["```"]),
        ("````\n```\n````\n", ["````"]),
        ("- a\n\n- b\n\n", []),
        ("- a\n\nNext.\n", ["- a"]),
        ("| a |\n|---|\n| 1 |\n", []),
        ("| a |\n|---|\n| 1 |\n\n", ["| 1 |"]),
        ("> a\n\n", ["> a"]),
        ("$$\nx\n", []),
        ("$$\nx\n$$\n", ["$$"]),
        ("Said:\n```\nx\n```\n", ["Said:", "```"]),
    ],
)
def test_a_block_is_finished_when_it_cannot_go_on(text: str, finished: list[str]) -> None:
    assert ends(text) == finished


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 20_000,
        "- a\n```\n" + "\nfoo\n" * 4_000,
        "```\n" * 5_000,
        "> a\n" * 5_000,
        "$$\n" * 7_000,
    ],
)
def test_hostile_text_is_not_read_again_and_again(text: str) -> None:
    blocks = Blocks(lambda part: part)
    for at in range(0, len(text), 4):
        blocks.add(text[at : at + 4])
    assert blocks.looked_at <= 9 * len(text) + 20_000
