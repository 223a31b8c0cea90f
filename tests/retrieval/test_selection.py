"""Which of the ranked passages are given."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from apps.retrieval.analysis import words_of
from apps.retrieval.selection import CROWDED, Selectable, select, shingles_of

ONE, TWO, THREE = (uuid.UUID(int=n) for n in range(101, 104))
WARRANTY = "The battery warranty lasts two years from the day of purchase in every shop we run."


def passage(
    text: str, score: float, *, document: uuid.UUID = ONE, question: str = ""
) -> Selectable:
    words = words_of(text)
    asked = {word.term for word in words_of(question)}
    telling = frozenset(
        word.term
        for word in words
        if word.term in asked or any(map(str.isdigit, text[word.start : word.end]))
    )
    return Selectable(uuid.uuid4(), document, score, [word.term for word in words], telling)


def given(passages: Sequence[Selectable], limit: int = 8) -> list[int]:
    """Places, in the order given, of those that are."""
    at = {each.chunk_id: place for place, each in enumerate(passages)}
    return [at[chunk] for chunk in select(passages, limit=limit).scores]


def test_a_copy_in_another_document_is_dropped_and_the_next_takes_its_place() -> None:
    passages = [
        passage(WARRANTY, 3, document=ONE),
        passage(WARRANTY, 2, document=TWO),
        passage("Refunds are paid within ten days.", 1, document=TWO),
    ]
    assert given(passages, limit=2) == [0, 2]
    assert select(passages, limit=2).duplicates == 1


def test_a_piece_of_a_better_passage_is_dropped_but_not_a_whole_that_holds_it() -> None:
    whole, piece = WARRANTY + " Chargers are covered for six months by the maker.", WARRANTY
    assert given([passage(whole, 2), passage(piece, 1)]) == [0]
    assert given([passage(piece, 2), passage(whole, 1)]) == [0, 1]


def test_passages_that_overlap_a_little_are_both_given() -> None:
    first = "One two three four five six seven eight nine ten."
    second = "Eight nine ten eleven twelve thirteen fourteen fifteen sixteen."
    assert given([passage(first, 2), passage(second, 1)]) == [0, 1]


def test_a_form_with_another_number_is_no_copy() -> None:
    form = "Invoice for the rent of the office in the north wing, due on the last of the month, {}"
    passages = [passage(form.format(n), 9 - n) for n in (1, 2, 3)]
    assert given(passages) == [0, 1, 2]


def test_a_form_that_names_what_the_question_asks_for_is_no_copy() -> None:
    form = "This agreement is made for the term of one year and may be ended by either side, {}"
    asked = "agreement with Meier"
    passages = [
        passage(form.format("Schulze"), 2, question=asked),
        passage(form.format("Meier"), 1, question=asked),
    ]
    assert given(passages) == [0, 1]


def test_from_the_third_passage_of_a_document_another_goes_first_where_scores_are_close() -> None:
    passages = [
        passage("alpha beta gamma", 3, document=ONE),
        passage("delta epsilon zeta", 2, document=ONE),
        passage("eta theta iota", 1, document=ONE),
        passage("kappa lambda mu", 1 - CROWDED / 2, document=TWO),
        passage("nu xi omicron", 1 - CROWDED * 2, document=THREE),
    ]
    assert given(passages) == [0, 1, 3, 2, 4]
    assert select(passages, limit=8).moved == 2


def test_the_passages_of_one_document_keep_their_order() -> None:
    passages = [passage(f"word{n} other{n} third{n}", 9 - n) for n in range(8)]
    assert given(passages) == list(range(8))


def test_scores_fall() -> None:
    passages = [
        passage(f"word{n} other{n}", 5 - n / 10, document=(ONE, ONE, TWO)[n % 3]) for n in range(12)
    ]
    scores = list(select(passages, limit=12).scores.values())
    assert scores == sorted(scores, reverse=True)


def test_a_shorter_list_is_the_beginning_of_a_longer_one() -> None:
    passages = [
        passage(f"w{n % 7} x{n} y{n}", 5 - n / 10, document=(ONE, ONE, TWO)[n % 3])
        for n in range(20)
    ]
    assert given(passages, limit=5) == given(passages, limit=20)[:5]


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["a"], ["a", "a"], ["!?", "..."]])
def test_texts_of_little_or_nothing_do_no_harm(texts: list[str]) -> None:
    chosen = select([passage(text, -n) for n, text in enumerate(texts)], limit=8)
    assert len(chosen.scores) + chosen.duplicates == len(texts)


def test_equal_scores_keep_the_order_they_came_in() -> None:
    assert given([passage(f"word{n}", 0.0, document=uuid.uuid4()) for n in range(5)]) == [*range(5)]


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1, 1), (3, 1), (4, 1), (6, 3)])
def test_short_texts_are_one_shingle(length: int, expected: int) -> None:
    assert len(shingles_of(list(range(length)))) == expected
