"""Weights of question tokens, and the late-interaction score."""

from __future__ import annotations

import numpy as np
import pytest

from apps.inference.maxsim import max_sim, token_weights, unit
from apps.inference.types import Vectors, WeightedWord

# [CLS] "emb" "##edding" "of" "cats" [SEP] over "embedding of cats"
OFFSETS = [(0, 0), (0, 3), (3, 9), (10, 12), (13, 17), (0, 0)]
SPECIAL = [True, False, False, False, False, True]


def test_without_words_every_plain_token_counts_alike() -> None:
    np.testing.assert_allclose(token_weights(OFFSETS, SPECIAL, []), [0, 0.25, 0.25, 0.25, 0.25, 0])


def test_tokens_take_the_weight_of_their_word() -> None:
    words = [WeightedWord(0, 9, 2.0), WeightedWord(13, 17, 4.0)]
    np.testing.assert_allclose(token_weights(OFFSETS, SPECIAL, words), [0, 0.25, 0.25, 0, 0.5, 0])


def test_words_that_meet_no_token_leave_the_weights_alike() -> None:
    weights = token_weights(OFFSETS, SPECIAL, [WeightedWord(90, 95, 3.0)])
    np.testing.assert_allclose(weights, [0, 0.25, 0.25, 0.25, 0.25, 0])


def test_a_question_of_special_tokens_only_weighs_nothing() -> None:
    assert not token_weights([(0, 0), (0, 0)], [True, True], []).any()


def vectors(*rows: list[float]) -> Vectors:
    return unit(np.array(rows, np.float32))


def test_the_best_match_of_each_token_is_averaged_by_weight() -> None:
    question = vectors([1, 0], [0, 1])
    passage = vectors([1, 0], [1, 1])
    half = float(np.sqrt(0.5))
    weights = np.array([0.75, 0.25], np.float32)
    assert max_sim(question, weights, passage) == pytest.approx(0.75 + 0.25 * half)


def test_an_empty_passage_scores_nothing() -> None:
    question = vectors([1.0, 0.0])
    assert max_sim(question, np.ones(1, np.float32), np.zeros((0, 2), np.float32)) == 0.0


def test_zero_vectors_stay_zero() -> None:
    assert not unit(np.zeros((2, 3), np.float32)).any()
