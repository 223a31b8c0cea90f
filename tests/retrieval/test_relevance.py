"""One scale, from whatever signals there are."""

from __future__ import annotations

import itertools

import pytest
from django.conf import settings

from apps.retrieval.relevance import Evidence, refusal_curve, relevance


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


def test_a_number_a_name_or_a_sentence_that_is_missing_makes_it_less_so() -> None:
    whole = Evidence(0.8, 0.6, 0.7, "en")
    without_number = Evidence(0.8, 0.6, 0.7, "en", numbers=0.0)
    without_name = Evidence(0.8, 0.6, 0.7, "en", names=0.0)
    scattered = Evidence(0.8, 0.6, 0.7, "en", closeness=0.4)
    for lesser in (without_number, without_name, scattered):
        assert relevance(lesser) < relevance(whole)
    assert relevance(without_number) < settings.NOT_FOUND_BELOW


def test_a_number_that_is_missing_does_not_sink_a_passage_that_fits_in_all_else() -> None:
    assert relevance(Evidence(1.0, 0.8, 0.9, "en", numbers=0.0)) > settings.NOT_FOUND_BELOW


def test_the_curve_says_what_each_limit_refuses() -> None:
    curve = {limit: (good, bad) for limit, good, bad in refusal_curve([0.5, 0.9], [0.1, 0.42, 0.8])}
    assert curve[0.0] == (0.0, 0.0)
    assert curve[0.42] == (0.0, pytest.approx(1 / 3))  # what is at the limit passes
    assert curve[0.6] == (0.5, pytest.approx(2 / 3))
    assert curve[1.0] == (1.0, 1.0)


def test_the_curve_rises_and_bears_having_no_questions() -> None:
    curve = refusal_curve([0.2, 0.4, 0.4], [])
    assert [limit for limit, _, _ in curve] == sorted({limit for limit, _, _ in curve})
    assert [good for _, good, _ in curve] == sorted(good for _, good, _ in curve)
    assert all(bad == 0.0 for _, _, bad in curve)
