"""Chunks cover the text, keep to the limit, and say where they are."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from apps.documents.chunking import PATH_MAX_CHARS, Span, chunk_text
from apps.documents.parsing.markdown import find_headings
from apps.documents.parsing.types import Heading
from apps.documents.tokenizer import tokenizer_file
from apps.documents.tokens import estimate_tokens, load_counter

MAX, OVERLAP = 100, 15
SENTENCE = "The river rises in spring and carries sand to the lower fields. "
GUIDE = "# Guide\n\n## Install\n\n" + SENTENCE * 30 + "\n\n## Use\n\nShort words.\n\n# Annex\n"
ODD_TEXTS = {
    "prose": SENTENCE * 100,
    "paragraphs": (SENTENCE * 3 + "\n\n") * 30,
    "markdown": GUIDE,
    "only headings": "\n".join(f"# Heading number {i}" for i in range(60)) + "\n",
    "nested headings": "\n".join(f"{'#' * (1 + i % 6)} Heading {i}" for i in range(40)) + "\nend\n",
    "chinese without blanks": "春天河水上涨把沙子带到下游的田野里" * 300,
    "japanese": "吾輩は猫である。名前はまだ無い。" * 200,
    "one long line": "lorem ipsum dolor sit amet " * 4000,
    "no blanks at all": "abcdefghij" * 5000,
    "emoji": "👩‍👩‍👧‍👦🎉" * 800,
    "right to left": "النهر يرتفع في الربيع ويحمل الرمال. שלום לכולם. " * 100,
    "blanks": "a" + " " * 5000 + "b" + "\n" * 5000 + "c\t\t\t\td",
    "punctuation": "...,,,;;;!!!???---" * 300,
    "rows": "\n".join(f"Item: thing {i}; Price: {i}; Place: shelf {i % 7}" for i in range(400)),
    "one word": "word",
}


@pytest.fixture(scope="module", params=["tokenizer", "estimate"])
def count(request: pytest.FixtureRequest):
    if request.param == "estimate":
        return estimate_tokens
    return load_counter(tokenizer_file())


def chunks_of(text: str, count, headings: list[Heading] | None = None) -> list[Span]:
    found = find_headings(text) if headings is None else headings
    return chunk_text(text, found, count, max_tokens=MAX, overlap_tokens=OVERLAP)


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_every_visible_character_is_in_a_chunk(name: str, count) -> None:
    text = ODD_TEXTS[name]
    covered = bytearray(len(text))
    for span in chunks_of(text, count):
        covered[span.start : span.end] = b"\x01" * (span.end - span.start)
    missed = [text[i] for i, hit in enumerate(covered) if not hit and not text[i].isspace()]
    assert missed == []


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_no_chunk_is_over_the_limit_or_blank(name: str, count) -> None:
    text = ODD_TEXTS[name]
    for span in chunks_of(text, count):
        assert span.token_count <= MAX + 1  # the line break between path and text is free
        assert text[span.start : span.end].strip() == text[span.start : span.end] != ""


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_chunks_are_in_order_and_repeatable(name: str, count) -> None:
    spans = chunks_of(ODD_TEXTS[name], count)
    assert spans == chunks_of(ODD_TEXTS[name], count)
    ends = [span.end for span in spans]
    assert ends == sorted(set(ends))


def test_a_chunk_carries_its_heading_path(count) -> None:
    paths = {span.heading_path for span in chunks_of(GUIDE, count)}
    assert {"Guide › Install", "Guide › Use"} <= paths


def test_a_heading_is_never_a_chunk_of_its_own_while_text_follows(count) -> None:
    for span in chunks_of(GUIDE, count):
        assert GUIDE[span.start : span.end] not in {"# Guide", "## Install", "## Use", "# Annex"}


def test_neighbours_in_a_section_overlap(count) -> None:
    spans = chunks_of(SENTENCE * 30, count)
    assert len(spans) > 2
    assert all(second.start < first.end for first, second in pairwise(spans))


def test_sections_do_not_reach_into_each_other(count) -> None:
    text = "# One\n\nalpha words here\n\n# Two\n\nbeta words here\n"
    assert [text[span.start : span.end] for span in chunks_of(text, count)] == [
        "# One\n\nalpha words here",
        "# Two\n\nbeta words here",
    ]


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_chunks_keep_to_their_page_and_miss_nothing(name: str, count) -> None:
    text = ODD_TEXTS[name]
    starts = list(range(700, len(text), 700))
    spans = chunk_text(text, [], count, max_tokens=MAX, overlap_tokens=OVERLAP, page_starts=starts)
    assert not [s for s in spans if any(s.start < start < s.end for start in starts)]
    covered = {i for span in spans for i in range(span.start, span.end)}
    assert all(i in covered for i, char in enumerate(text) if not char.isspace())


def test_a_heading_at_the_foot_of_a_page_goes_with_its_text(count) -> None:
    text = SENTENCE + "\n# Annex\n" + SENTENCE
    page_start = text.index("# Annex\n") + len("# Annex\n")
    spans = chunk_text(
        text,
        find_headings(text),
        count,
        max_tokens=MAX,
        overlap_tokens=OVERLAP,
        page_starts=[page_start],
    )
    assert [text[span.start : span.end].split()[0] for span in spans] == ["The", "#"]


def test_a_section_over_two_pages_keeps_its_heading_path(count) -> None:
    text = "# Annex\n" + SENTENCE + SENTENCE
    spans = chunk_text(
        text,
        find_headings(text),
        count,
        max_tokens=MAX,
        overlap_tokens=OVERLAP,
        page_starts=[len(text) - len(SENTENCE)],
    )
    assert [span.heading_path for span in spans] == ["Annex", "Annex"]


def test_a_long_heading_path_is_cut_to_fit(count) -> None:
    headings = [Heading(i, 1 + i, f"level {i} " + "word " * 50) for i in range(6)]
    spans = chunks_of("x\n" * 6 + SENTENCE * 20, count, headings)
    assert all(len(span.heading_path) <= PATH_MAX_CHARS for span in spans)


def test_headings_out_of_range_are_left_aside(count) -> None:
    headings = [Heading(99999, 1, "far"), Heading(-4, 1, "near"), Heading(0, 1, "")]
    assert len(chunks_of("just words", count, headings)) == 1


@pytest.mark.slow
def test_a_megabyte_in_one_line_is_cut_within_seconds() -> None:
    start = time.monotonic()
    spans = chunks_of("lorem ipsum dolor sit amet " * 40_000, load_counter(tokenizer_file()), [])
    assert len(spans) > 1000
    assert time.monotonic() - start < 20
