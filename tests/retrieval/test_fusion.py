"""Putting the legs' scores together."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from apps.retrieval.fusion import combine, fuse, standardise
from apps.retrieval.types import Candidate

A, B, C, D = (uuid.UUID(int=n) for n in range(1, 5))


def test_standard_scores_have_mean_zero_and_deviation_one() -> None:
    scores = standardise([1.0, 2.0, 6.0])
    assert scores.mean() == pytest.approx(0)
    assert scores.std() == pytest.approx(1)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5, 0.5], [None, None]])
def test_values_that_do_not_differ_say_nothing(values: list[float | None]) -> None:
    assert not standardise(values).any()


def test_a_missing_value_is_neutral() -> None:
    assert standardise([1.0, None, 3.0])[1] == 0


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_a_broken_score_spoils_no_other(broken: float) -> None:
    assert np.isfinite(standardise([1.0, broken, 3.0])).all()


def test_a_candidate_both_legs_like_comes_first() -> None:
    fused = fuse({A: 0.9, B: 0.8, C: 0.1}, {B: 12.0, D: 3.0})
    assert fused[0].chunk_id == B
    assert {candidate.chunk_id for candidate in fused} == {A, B, C, D}


def test_candidates_keep_what_each_leg_said() -> None:
    by_id = {candidate.chunk_id: candidate for candidate in fuse({A: 0.9}, {B: 3.0})}
    assert (by_id[A].vector_score, by_id[A].bm25_score) == (0.9, None)
    assert (by_id[B].vector_score, by_id[B].bm25_score) == (None, 3.0)


def test_one_leg_alone_keeps_its_order() -> None:
    scores = {A: 0.2, B: 0.9, C: 0.5}
    assert [candidate.chunk_id for candidate in fuse(scores, {})] == [B, C, A]
    assert [candidate.chunk_id for candidate in fuse({}, scores)] == [B, C, A]


def test_no_candidates_fuse_to_none() -> None:
    assert fuse({}, {}) == []


def test_ties_are_broken_the_same_way_every_time() -> None:
    assert fuse({B: 0.5, A: 0.5}, {}) == fuse({A: 0.5, B: 0.5}, {})


def test_the_reranker_has_a_third_of_the_say() -> None:
    candidates = [Candidate(A, 0.9, 9.0, 2.0), Candidate(B, 0.8, 8.0, 0.0)]
    assert combine(candidates, [0.1, 0.9]) == pytest.approx([1.0, -1.0])
    assert combine(candidates, [0.9, 0.1]) == pytest.approx([3.0, -3.0])


def test_a_candidate_the_reranker_cannot_read_counts_as_its_mean() -> None:
    candidates = [Candidate(chunk, 0.5, 1.0, 0.0) for chunk in (A, B, C)]
    scores = combine(candidates, [0.9, None, 0.1])
    assert scores == pytest.approx([1.0, 0.0, -1.0])


def test_a_reranker_that_could_read_none_has_no_say() -> None:
    candidates = [Candidate(A, 0.9, 9.0, 2.0), Candidate(B, 0.8, 8.0, 0.0)]
    assert combine(candidates, [None, None]) == pytest.approx([2.0, -2.0])


def test_cosines_that_hardly_differ_do_not_outvote_words() -> None:
    near = {A: 0.7001, B: 0.7, C: 0.7}
    assert fuse(near, {B: 3.0, C: 1.0})[0].chunk_id == B
    apart = standardise([0.7001, 0.7, 0.7], least_spread=0.02)
    assert np.abs(apart).max() < 0.01


def test_one_candidate_is_one_candidate() -> None:
    [only] = fuse({A: 0.9}, {A: 3.0})
    assert (only.chunk_id, only.fused_score) == (A, 0.0)
    assert combine([only], [0.8]) == [0.0]


def test_equal_scores_everywhere_leave_the_order_of_the_ids() -> None:
    same = {C: 0.5, A: 0.5, B: 0.5}
    assert [each.chunk_id for each in fuse(same, same)] == [A, B, C]
