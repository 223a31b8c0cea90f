"""Citations are earned, sentence by sentence."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from apps.chat.pipeline.citations import Evidence, match_sentences, split_sentences
from apps.retrieval.types import Passage


def passage(text: str, name: str = "handbook.md") -> Passage:
    return Passage(
        chunk_id=uuid.uuid4(),
        document_id=uuid.uuid4(),
        document_name=name,
        heading_path="",
        text=text,
        page_first=1,
        page_last=1,
        char_start=0,
        char_end=len(text),
        score=1.0,
        relevance=0.9,
    )


LEAVE = passage("Employees receive 25 days of paid leave a year, granted in January.")
TRAVEL = passage("Travel expenses are refunded within 14 days after the receipts arrive.")


def judged(text: str) -> list[tuple[str, tuple[int, ...], bool]]:
    return [
        (text[s.start : s.end], s.markers, s.supported)
        for s in match_sentences(text, [LEAVE, TRAVEL])
    ]


def test_a_marker_that_its_passage_supports_is_kept() -> None:
    assert judged("Employees receive 25 days of paid leave [1].") == [
        ("Employees receive 25 days of paid leave [1].", (1,), True)
    ]


def test_a_sentence_without_a_marker_gets_the_passage_that_supports_it() -> None:
    assert judged("Travel expenses are refunded within 14 days.")[0][1:] == ((2,), True)


def test_a_marker_at_the_wrong_passage_is_replaced_by_the_right_one() -> None:
    assert judged("Travel expenses are refunded within 14 days [1].")[0][1:] == ((2,), True)


@pytest.mark.parametrize("marker", ["[3]", "[0]", "[999]"])
def test_a_marker_of_a_passage_that_was_not_given_is_dropped(marker: str) -> None:
    assert judged(f"The moon is made of cheese {marker}.")[0][1:] == ((), False)


def test_a_wrong_number_is_not_supported_however_alike_the_words() -> None:
    assert judged("Employees receive 30 days of paid leave a year.")[0][1:] == ((), False)


@pytest.mark.parametrize(
    ("said", "passage_text", "supported"),
    [
        ("The document is lost.", "When Redis is lost, nothing of a document is lost.", False),
        ("A member may not read it.", "A member may read it.", False),
        ("You can't retry a document.", "A document can be retried.", False),
        ("Nothing is stored.", "The answer is stored. Nothing is stored of the password.", True),
        ("Members may read pages.", "Members may read pages. They may not write.", True),
        ("Members may not write.", "Members may read pages. Members may not write.", True),
    ],
)
def test_a_negation_too_many_or_too_few_is_not_supported(
    said: str, passage_text: str, supported: bool
) -> None:
    [sentence] = match_sentences(said, [passage(passage_text)])
    assert sentence.supported is supported


def test_words_from_all_over_a_long_passage_do_not_add_up_to_support() -> None:
    scattered = passage(
        "The canteen opens at noon. Visitors sign in. A pass is shown. Parking costs money. Cars "
        "queue. Rain falls. Dogs stay outside. Cats hide. Birds sing. The lift is slow. Stairs "
        "are steep. Doors close. Badges are blue."
    )
    [sentence] = match_sentences("The blue canteen lift costs dogs money.", [scattered])
    assert not sentence.supported


def test_the_headings_alone_do_not_support_a_sentence() -> None:
    titled = dataclasses.replace(
        passage("It opens at nine."), heading_path="Library › Upload scanned documents"
    )
    [sentence] = match_sentences("You can upload scanned documents.", [titled])
    assert not sentence.supported


def test_a_question_claims_nothing() -> None:
    assert judged("How long is paid leave a year?") == []


def test_each_sentence_is_judged_on_its_own() -> None:
    text = "Employees receive 25 days of paid leave. Penguins govern the canteen."
    assert [supported for _, _, supported in judged(text)] == [True, False]


@pytest.mark.parametrize("text", ["", "   \n", "[1]", "## \n", "---", "[1] [2]\n\n***"])
def test_text_that_claims_nothing_is_not_judged(text: str) -> None:
    assert judged(text) == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One thing. Another thing.", ["One thing.", "Another thing."]),
        ("It is so [1]. It is not [2].", ["It is so [1].", "It is not [2]."]),
        ("It is so. [1] It is not.", ["It is so. [1]", "It is not."]),
        ("See e.g. the guide. Then stop.", ["See e.g. the guide.", "Then stop."]),
        ("Version 3.5 is out. Use it.", ["Version 3.5 is out.", "Use it."]),
        ("- first point\n- second point", ["first point", "second point"]),
        ("1. first\n2. second", ["first", "second"]),
        ("第一句。第二句。", ["第一句。", "第二句。"]),
        ("Before.\n```\nx = 1. y.\n```\nAfter.", ["Before.", "After."]),
        ("no end", ["no end"]),
    ],
)
def test_sentences_are_split(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    "text",
    ["a" * 100_000, ". " * 50_000, "[" * 100_000, "[1]" * 30_000, "|" * 90_000, "A. " * 30000],
)
def test_hostile_text_takes_no_more_than_moments(text: str) -> None:
    match_sentences(text, [LEAVE])


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Penguins govern the moon.", "no_passage"),
        ("Employees receive 30 days of paid leave a year.", "numbers_differ"),
        ("Employees receive no paid leave a year, granted in January.", "negation_differs"),
        ("Employees receive paid leave on every birthday they celebrate.", "words_missing"),
        ("Employees receive 25 days of paid leave a year.", ""),
    ],
)
def test_it_is_told_why_a_sentence_is_unsupported(said: str, reason: str) -> None:
    [sentence] = match_sentences(said, [LEAVE, TRAVEL])
    assert sentence.reason == reason


def test_without_passages_nothing_says_it() -> None:
    [sentence] = match_sentences("Leave is 25 days.", [])
    assert sentence.reason == "no_passage"


def test_blocks_are_judged_as_the_whole_is() -> None:
    blocks = ["Employees receive 25 days of paid leave.\n\n", "- Penguins govern the canteen.\n"]
    whole = match_sentences("".join(blocks), [LEAVE, TRAVEL])
    evidence = Evidence([LEAVE, TRAVEL])
    parts = [sentence for block in blocks for sentence in evidence.judge(block)]
    assert [(s.markers, s.reason) for s in parts] == [(s.markers, s.reason) for s in whole]


def test_the_first_row_of_a_table_names_its_columns_and_claims_nothing() -> None:
    table = "| Joined | Paid leave |\n|:--|--:|\n| January | 25 days |\n"
    claims = [table[start:end] for start, end in split_sentences(table)]
    assert not any("Joined" in claim for claim in claims)
    assert any("25 days" in claim for claim in claims)
    assert list(split_sentences("a | b\nno table\n"))
