"""What question and passage have in common, apart from their vectors."""

from __future__ import annotations

import pytest

from apps.retrieval.analysis import terms_of, words_of
from apps.retrieval.bm25 import Statistics
from apps.retrieval.signals import closeness, coverage, name_share, number_share

STATISTICS = Statistics(100, {})


def terms(text: str, language: str = "en") -> set[int]:
    return set(terms_of(text, language))


def test_coverage_is_the_share_of_the_questions_words_weighed_by_rarity() -> None:
    common, rare = (word.term for word in words_of("the warranty"))
    statistics = Statistics(100, {common: 90, rare: 1})
    words = words_of("the warranty")
    assert coverage(words, terms("Warranties last two years."), statistics) > 0.9
    assert coverage(words, terms("the end"), statistics) < 0.1
    assert coverage(words, terms("the warranty"), statistics) == pytest.approx(1.0)


def test_a_word_stemmed_two_ways_counts_once() -> None:
    words = list(dict.fromkeys([*words_of("Rechnungen"), *words_of("Rechnungen", "de")]))
    assert len(words) == 2
    assert coverage(words, terms("Die Rechnung ist da.", "de"), STATISTICS) == pytest.approx(1.0)


def test_a_question_without_words_covers_nothing() -> None:
    assert coverage([], terms("text"), STATISTICS) == 0


def near(question: str, text: str) -> float:
    return closeness(words_of(question), text, words_of(text), STATISTICS)


def test_words_in_one_sentence_or_two_in_a_row_are_close() -> None:
    assert near("battery warranty", "The battery has a warranty. It is long.") == 1
    assert near("battery warranty", "It has a battery. The warranty is long.") == 1


def test_words_from_all_over_a_passage_are_not() -> None:
    text = "Phones.\nIt has a battery. Nothing here. Nothing there. The warranty is long."
    assert near("battery warranty", text) == pytest.approx(0.5)


def test_a_heading_goes_with_every_sentence() -> None:
    text = "Battery\nNothing here. Nothing there. The warranty is long."
    assert near("battery warranty", text) == 1


@pytest.mark.parametrize("text", ["", "...", "\n\n\n", "nothing in common"])
def test_where_nothing_is_covered_nothing_is_scattered(text: str) -> None:
    assert near("battery warranty", text) == 1


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("What happened in 1066?", "In 1066 the Normans came.", 1),
        ("What happened in 1066?", "In 1067 they stayed.", 0),
        ("From 1066 to 1087?", "In 1066 it began.", 0.5),
        ("Who paid 12,500 euros?", "12.500 Euro wurden bezahlt.", 1),
        ("ماذا حدث في ١٠٦٦؟", "in 1066", 1),
        ("Give me 3 reasons", "There are many.", 1),
        ("Why?", "1066", 1),
        ("²³¹ ½", "text", 1),
    ],
)
def test_numbers_are_found_however_they_are_written(question: str, text: str, share: float) -> None:
    assert number_share(question, text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("Who did Rollo marry?", "ROLLO married Poppa.", 1),
        ("Who did Rollo marry?", "Hugh married.", 0),
        ("What was Normandy's capital under Rollo?", "The capital of Normandy was Rouen.", 0.5),
        ("Where is it?", "Nowhere.", 1),
        ("I lost my badge. What now?", "Report a lost badge.", 1),
        ("How To Reset My Password", "Nothing of it.", 1),
        ("WHERE IS ROLLO", "Nothing.", 1),
        ("", "", 1),
    ],
)
def test_names_are_found_in_any_case(question: str, text: str, share: float) -> None:
    assert name_share(question, text, "en") == pytest.approx(share)


def test_where_all_nouns_are_capitals_none_is_taken_for_a_name() -> None:
    assert name_share("Wann wird die Rechnung für das Büro bezahlt?", "nichts", "de") == 1
