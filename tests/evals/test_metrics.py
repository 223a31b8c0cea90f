"""Metrics against sums done by hand, and against the plain ones of `tests/retrieval/beir.py`."""

from __future__ import annotations

import math
import random
import uuid

import numpy as np
import pytest

from apps.evals.bootstrap import mean_intervals
from apps.evals.matching import Found, Labelled
from apps.evals.metrics import FIRST_RANK, METRICS, measure
from tests.retrieval import beir

DOCUMENTS = [uuid.uuid4() for _ in range(150)]


def ranked(*numbers: int) -> list[Found]:
    return [Found(uuid.uuid4(), DOCUMENTS[number], 0, 10, 0.0) for number in numbers]


def labels(grades: dict[int, int]) -> list[Labelled]:
    return [
        Labelled(number, DOCUMENTS[number], None, None, grade) for number, grade in grades.items()
    ]


def of_one(found: list[Found], judged: list[Labelled]) -> dict[str, float]:
    return measure({"final": found}, judged)["final"]


def test_grades_are_gains() -> None:
    values = of_one(ranked(9, 1, 0), labels({0: 2, 1: 1, 2: 1}))
    gain = 1 / math.log2(3) + 2 / math.log2(4)
    ideal = 2 + 1 / math.log2(3) + 1 / math.log2(4)
    assert values["ndcg@10"] == pytest.approx(gain / ideal)
    assert values["mrr@10"] == pytest.approx(1 / 2)
    assert values["recall@5"] == pytest.approx(2 / 3)
    assert (values["success@1"], values["success@5"]) == (0, 1)
    assert values[FIRST_RANK] == 2


def test_ranks_below_ten_count_for_recall_alone() -> None:
    values = of_one(ranked(*range(20, 32), 0), labels({0: 1}))
    assert values["recall@20"] == values["recall@100"] == 1
    assert values["recall@10"] == values["ndcg@10"] == values["mrr@10"] == 0
    assert values["success@10"] == 0
    assert values[FIRST_RANK] == 13


def test_what_was_not_found_has_no_rank() -> None:
    for found in (ranked(5, 6), []):
        values = of_one(found, labels({0: 1}))
        assert {values[name] for name in METRICS} == {0.0}
        assert FIRST_RANK not in values


def test_what_was_looked_at_and_is_not_relevant_counts_as_nothing() -> None:
    judged = labels({0: 0, 1: 1})
    values = of_one(ranked(0, 1), judged)
    assert values["success@1"] == 0
    assert values["recall@5"] == 1


def test_only_the_first_hundred_units_count() -> None:
    values = of_one(ranked(*range(1, 121), 0), labels({0: 1}))
    assert values["recall@100"] == 0


def test_stages_are_measured_each_for_itself() -> None:
    values = measure({"bm25": ranked(1, 0), "vectors": [], "fused": ranked(0)}, labels({0: 1}))
    assert [values[stage]["mrr@10"] for stage in ("bm25", "vectors", "fused")] == [0.5, 0, 1]


def test_they_agree_with_the_plain_ones() -> None:
    rng = random.Random(3)  # noqa: S311 - the same each time
    for _ in range(60):
        order = rng.sample(range(120), 110)
        relevant = rng.sample(range(120), rng.randint(1, 12))
        values = of_one(ranked(*order), labels(dict.fromkeys(relevant, 1)))
        names, wanted = [str(each) for each in order], {str(each) for each in relevant}
        assert values["ndcg@10"] == pytest.approx(beir.ndcg(names, wanted))
        for depth in (5, 10, 20, 50, 100):
            assert values[f"recall@{depth}"] == pytest.approx(beir.recall(names, wanted, depth))


def test_intervals_are_those_of_a_mean() -> None:
    values = np.random.default_rng(5).normal(0.5, 0.2, (400, 2))
    intervals = mean_intervals(values, seed=1)
    for column, (low, high) in enumerate(intervals):
        mean = values[:, column].mean()
        spread = 1.96 * values[:, column].std() / math.sqrt(400)
        assert low == pytest.approx(mean - spread, abs=0.003)
        assert high == pytest.approx(mean + spread, abs=0.003)
    assert intervals == mean_intervals(values, seed=1)


def test_one_question_has_no_width_and_none_no_interval() -> None:
    assert mean_intervals(np.array([[0.3]])) == [(0.3, 0.3)]
    assert mean_intervals(np.empty((0, 2))) == []
