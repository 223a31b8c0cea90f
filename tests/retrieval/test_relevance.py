"""One scale, from whatever signals there are."""

from __future__ import annotations

import itertools

import pytest
from django.conf import settings

from apps.retrieval.analysis import terms_of, words_of
from apps.retrieval.bm25 import Statistics
from apps.retrieval.relevance import Evidence, coverage, relevance

STATISTICS = Statistics(100, {})


def terms(text: str, language: str = "en") -> set[int]:
    return set(terms_of(text, language))


@pytest.mark.parametrize("late", [0.8, None])
@pytest.mark.parametrize("cosine", [0.75, None])
def test_a_passage_that_answers_passes_with_any_part_down(
    cosine: float | None, late: float | None
) -> None:
    assert relevance(Evidence(0.9, cosine, late, "en")) > settings.NOT_FOUND_BELOW


@pytest.mark.parametrize("late", [0.35, None])
@pytest.mark.parametrize("cosine", [0.05, None])
def test_a_passage_about_something_else_does_not(cosine: float | None, late: float | None) -> None:
    assert relevance(Evidence(0.15, cosine, late, "en")) < settings.NOT_FOUND_BELOW


def test_it_lies_between_zero_and_one() -> None:
    signals = (-1.0, 0.0, 0.5, 1.0, 7.0)
    for share, cosine, late in itertools.product((0.0, 1.0), (None, *signals), (None, *signals)):
        for language in ("", "en", "zh", "th"):
            assert 0 <= relevance(Evidence(share, cosine, late, language)) <= 1


def test_nothing_in_common_and_no_vector_is_not_relevant_at_all() -> None:
    assert relevance(Evidence(0.0, None, None, "zh")) == 0


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
